package agent

import (
	"time"

	"tunctl/internal/api"
)

// chronicle writes down that a job of the session is over. A history that cannot be
// written stops nothing.
func (s *session) chronicle(job api.Job) {
	now := time.Now()
	if job.End.IsZero() || job.End.After(now) {
		job.End = now // of a job that was still running, it was the time limit
	}
	job.Script = ""
	run := api.Run{Session: s.name, Host: s.host(), Job: job, Why: api.Redact(endedWords(&job)), Noted: now}
	if err := s.agent.history.Add(run); err != nil {
		s.agent.log.Warn("cannot write the history", "err", err)
	}
}

// waitsBefore says how long jobs like this one waited before.
func (s *session) waitsBefore(job api.Job) string {
	waits, err := s.agent.history.EarlierWaits(s.host(), s.name, job.Name)
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	return waits
}
