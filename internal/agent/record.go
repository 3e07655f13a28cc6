package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// record is the one writer of what survives a restart, once a session exists: it changes
// what is remembered of the session, and then what is shown of it. show may be nil. If the
// file cannot be written, the session continues and says so; a caller that must not
// continue checks the error.
func (s *session) record(remember func(*state.Session), show func(*facts.Facts)) error {
	err := s.agent.store.Update(s.name, remember)
	if err != nil {
		s.agent.log.Error("cannot save the session", "session", s.name, "err", err)
	}
	s.change(func(f *facts.Facts) {
		f.Unsaved = err
		if show != nil {
			show(f)
		}
	})
	return err
}

// adopt makes a job of an account, and what is known of its submission, the session's. The
// scheduler was asked then; zero if it has not said that the job exists.
func (s *session) adopt(job api.Job, sub state.Submission, account string, asked time.Time) error {
	waits, err := s.agent.history.EarlierWaits(s.host(), s.name, job.Name)
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	if job.Seen.IsZero() { // it was found or submitted just now
		job.Seen = time.Now().Round(0).UTC()
	}
	sub.Role, sub.Job, sub.Host, sub.Account, sub.Doubt = state.RoleJob, &job, s.host(), account, false
	present := s.presentIn(sub)
	was := s.agent.store.Session(s.name).Current().Job
	isNew := was == nil || was.Ref() != job.Ref()
	var conflict error
	err = s.record(func(r *state.Session) {
		if isNew {
			r.Asked = 0
		}
		r.Submissions, r.Asked = r.Submissions.Put(sub), cmp.Or(timeLimit(job), r.Asked)
	}, func(f *facts.Facts) {
		if s.asked.With != nil {
			if conflict = s.conflictLocked(job, present, s.asked.With); conflict != nil {
				s.asked = submit.Plan{}
			}
		}
		f.Job, f.Submitting, f.Waits, f.With = &job, false, waits, sub.With
		s.settlePermitLocked(jobwatch.Report{Job: job, Asked: asked}) // never before the job is shown
		if f.Next != nil && f.Next.Ref() == job.Ref() {
			f.Next = nil
		}
	})
	if isNew {
		s.rememberChoices(sub.With)
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

// recordSubmission changes what is remembered of one submission; show may be nil.
func (s *session) recordSubmission(sub state.Submission, change func(*state.Submission), show func(*facts.Facts)) {
	_ = s.record(func(r *state.Session) { r.Submissions = r.Submissions.Change(sub, change) }, show)
}

// setJob records the current state of the session's job.
func (s *session) setJob(job api.Job) {
	if was := s.agent.store.Session(s.name).Current().Job; was != nil && job.Seen.IsZero() {
		job.Seen = was.Seen // its log showed the change, and not the scheduler
	}
	_ = s.record(func(r *state.Session) {
		r.Submissions = r.Submissions.Change(r.Current(), func(x *state.Submission) { x.Job = &job })
		r.Asked = cmp.Or(timeLimit(job), r.Asked)
	}, func(f *facts.Facts) {
		f.Job = &job
		if job.State.Ended() { // before anybody asks for the page of a job that is over
			f.Answers, f.Doing = false, fmt.Sprintf("job %s has ended", job.ID)
		}
	})
}

// asRecorded is a job as it was reported or, if its number is another job's by now, the recorded
// one as ended.
func (s *session) asRecorded(job api.Job) api.Job {
	sub := s.agent.store.Session(s.name).Submissions.Of(job)
	if sub.Job == nil || sub.Matches(job, sub.Account) {
		return job
	}
	job = *sub.Job
	job.State, job.Reason, job.Hint = api.JobFinished, api.ReasonGone, "its number is another job's now"
	return job
}

// dropSubmission forgets a submission whose job is over, and adds it to the history before that
// is shown. The job of a session is shown until there is another.
func (s *session) dropSubmission(sub state.Submission, job api.Job) {
	var rec state.Session
	_ = s.record(func(r *state.Session) {
		rec = *r
		r.Submissions = r.Submissions.Drop(sub)
	}, nil)
	if i := slices.IndexFunc(rec.Submissions, sub.Is); i >= 0 && rec.Submissions[i].Live() { // else it was added already
		s.addRun(rec, job)
	}
	s.change(func(f *facts.Facts) {
		if f.Next != nil && f.Next.Ref() == job.Ref() {
			f.Next = nil
		}
		switch {
		case f.Job == nil || f.Job.Ref() != job.Ref():
		case !f.Wanted:
			f.Job = nil
		case !f.Job.State.Ended():
			f.Job = &job
		}
	})
}

// promoteNext makes the job that follows the session's.
func (s *session) promoteNext(sub state.Submission) {
	next := *sub.Job
	sub.Role = state.RoleJob
	_ = s.record(func(r *state.Session) { r.Submissions, r.Asked = r.Submissions.Put(sub), timeLimit(next) }, func(f *facts.Facts) {
		f.Job, f.Next, f.Served, f.Submitting, f.Doing = &next, nil, false, false, ""
		s.endPermitLocked() // a person who asked for a job meanwhile has this one
	})
}

// recordRun adds a job that is over to the history.
func (s *session) recordRun(job api.Job) { s.addRun(s.agent.store.Session(s.name), job) }

// addRun adds a job that is over to the history, with what is remembered of the session. A
// history that cannot be written stops nothing.
func (s *session) addRun(rec state.Session, job api.Job) {
	now := time.Now()
	job = facts.EndedBy(job, now)
	job.Script, job.Seen = "", time.Time{}
	sub, asked := rec.Submissions.Of(job), rec.Asked
	if sub.Job != nil && sub.Role != state.RoleJob {
		asked = timeLimit(*sub.Job)
	}
	gpus, _ := strconv.Atoi(cmp.Or(sub.With["gpus"], s.config().With["gpus"]))
	run := api.Run{
		Session: s.name, Host: s.host(), Job: job, Why: api.Redact(facts.EndText(&job, now)), Noted: now,
		With: sub.With, Asked: asked, GPUs: gpus, Idle: int64(s.meter.IdleTime(job.Ref()).Seconds()),
	}
	if err := s.agent.history.Add(run); err != nil {
		s.agent.log.Warn("cannot write the history", "err", err)
	}
}

// timeLimit is the time limit of a running job, in seconds; 0 if it is not known.
func timeLimit(job api.Job) int64 {
	if job.State != api.JobRunning || job.Start.IsZero() || !job.End.After(job.Start) {
		return 0
	}
	return int64(job.End.Sub(job.Start).Seconds())
}
