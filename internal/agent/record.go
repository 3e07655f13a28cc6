package agent

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// record is the one writer of what survives a restart, once a session exists: it changes
// what is remembered of the session, and then what is shown of it. show may be nil. If the
// file cannot be written, the session continues and says so; a caller that must not
// continue checks the error.
func (s *session) record(remember func(*state.Session), show func(*facts)) error {
	err := s.agent.store.Update(s.name, remember)
	if err != nil {
		s.agent.log.Error("cannot save the session", "session", s.name, "err", err)
	}
	s.change(func(f *facts) {
		f.unsaved = err
		if show != nil {
			show(f)
		}
	})
	return err
}

// adopt makes a job of an account the session's.
func (s *session) adopt(job api.Job, tag, account string) error {
	waits := s.waitsBefore(job)
	rec := s.agent.store.Session(s.name)
	rec.Tag = tag
	present := s.presentIn(rec)
	var conflict error
	isNew := rec.Job == nil || rec.Job.Ref() != job.Ref()
	err := s.record(func(r *state.Session) {
		if isNew { // the next job, if any, was this one or is outdated
			r.Next, r.NextTag, r.Asked = nil, "", 0
		}
		r.Job, r.Tag, r.Account = &job, tag, account
		if tag == "" {
			r.With = nil // of another job
		}
		present.with = r.With
		r.Asked = cmp.Or(timeLimit(job), r.Asked)
	}, func(f *facts) {
		if s.asked != nil {
			conflict = s.conflictLocked(job, present, s.asked)
		}
		s.asked = nil
		f.job, f.submitting, f.waits, f.lapsed, f.with = &job, false, waits, false, present.with
		s.usePermitLocked()
	})
	if isNew {
		s.rememberChoices(present.with)
	}
	return cmp.Or(err, conflict)
}

// rememberChoices adds the choices of a run to those of earlier runs, which a second session
// shares with the one of the config.
func (s *session) rememberChoices(with api.Choices) {
	if len(with) == 0 {
		return
	}
	base := s
	if s.of != "" {
		if first, err := s.agent.session(s.of); err == nil {
			base = first
		}
	}
	_ = base.record(func(r *state.Session) { r.AddRecent(with) }, nil)
}

// setJob records the current state of the session's job.
func (s *session) setJob(job api.Job) {
	_ = s.record(func(r *state.Session) { r.Job, r.Asked = &job, cmp.Or(timeLimit(job), r.Asked) }, func(f *facts) {
		f.job = &job
		if job.State.Ended() { // before anybody asks for the page of a job that is over
			f.answers, f.doing = false, fmt.Sprintf("job %s has ended", job.ID)
		}
	})
}

// forgetJob forgets a job that is over. It is shown until the session has another. Its choices
// stay, for the job that follows it.
func (s *session) forgetJob() {
	_ = s.record(func(r *state.Session) { r.Job, r.Tag = nil, "" }, nil)
}

// setNext records the current state of the job that follows; nil if none does.
func (s *session) setNext(next *api.Job) {
	_ = s.record(func(r *state.Session) { r.Next = next }, func(f *facts) { f.next = next })
}

// promoteNext makes the job that follows the session's.
func (s *session) promoteNext(next api.Job) {
	_ = s.record(func(r *state.Session) {
		r.Job, r.Asked, r.Tag, r.Next, r.NextTag = &next, timeLimit(next), r.NextTag, nil, ""
	}, func(f *facts) {
		f.job, f.next, f.served, f.submitting, f.doing = &next, nil, false, false, ""
		s.usePermitLocked() // a person who asked for a job meanwhile has this one
	})
}

// recordRun adds a job that is over to the history. A history that cannot be written
// stops nothing.
func (s *session) recordRun(job api.Job) {
	now := time.Now()
	if job.End.IsZero() || job.End.After(now) {
		job.End = now // of a job that was still running, it was the time limit
	}
	job.Script = ""
	rec := s.agent.store.Session(s.name)
	gpus, _ := strconv.Atoi(cmp.Or(rec.With["gpus"], s.config().With["gpus"]))
	run := api.Run{
		Session: s.name, Host: s.host(), Job: job, Why: api.Redact(endText(&job)), Noted: now,
		With: rec.With, Asked: limitOf(rec, job), GPUs: gpus, Idle: int64(s.meter.idleTime(job.Ref()).Seconds()),
	}
	if err := s.agent.history.Add(run); err != nil {
		s.agent.log.Warn("cannot write the history", "err", err)
	}
}

// limitOf is the time limit of a job that is over, in seconds; 0 if it is not known.
func limitOf(rec state.Session, job api.Job) int64 {
	if rec.Next != nil && rec.Next.Ref() == job.Ref() {
		return timeLimit(*rec.Next)
	}
	return rec.Asked
}

// timeLimit is the time limit of a running job, in seconds; 0 if it is not known.
func timeLimit(job api.Job) int64 {
	if job.State != api.JobRunning || job.Start.IsZero() || !job.End.After(job.Start) {
		return 0
	}
	return int64(job.End.Sub(job.Start).Seconds())
}

// waitsBefore says how long jobs like this one waited before.
func (s *session) waitsBefore(job api.Job) string {
	waits, err := s.agent.history.EarlierWaits(s.host(), s.name, job.Name)
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	return waits
}
