package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
)

// Role is what the job of a submission is to its session.
type Role string

// The roles. A session has at most one job and one that follows it.
const (
	RoleJob   Role = "job"   // the session's job
	RoleNext  Role = "next"  // follows it, by keep = true
	RoleOther Role = "other" // left behind by another: it was in doubt, is ending, or is on another account
)

// Submission is a job of a session, or what may become one. The scheduler charges for it until
// it ends, so it stays in the list until the scheduler has said what became of it; see
// Submissions.
type Submission struct {
	// Tag names the submission, for which it is the idempotency key. It is saved before the
	// submission. "" if tunctl did not submit the job.
	Tag string `json:"tag,omitempty"`
	// Job is the job as last seen; nil while it is not known whether there is one.
	Job  *api.Job `json:"job,omitempty"`
	Role Role     `json:"role"`
	// Doubt says that the user was told that the result is not known. Who brings the session up
	// again has checked that, so the next submission gets a new tag.
	Doubt bool `json:"doubt,omitempty"`
	// When is when the submit command ended or was lost; zero while it may be under way. In the process
	// that set it, it has a monotonic reading: a clock that is set says nothing about the scheduler.
	When time.Time `json:"when,omitzero"`
	// Missed is when a query first did not find the tag.
	Missed time.Time `json:"missed,omitzero"`
	// Host and Account are where it was submitted; an account is user@address.
	Host    string `json:"host,omitempty"`
	Account string `json:"account,omitempty"`
	// With are the user's choices.
	With api.Choices `json:"with,omitempty"`
	// Served says that what the job serves has answered.
	Served bool `json:"served,omitempty"`
	// Cancel says that the user wants the job ended, also if it appears later.
	Cancel bool `json:"cancel,omitempty"`
}

// Is reports whether two records are of one submission.
func (s Submission) Is(o Submission) bool {
	if s.Tag != "" || o.Tag != "" {
		return s.Tag == o.Tag
	}
	return s.Job != nil && o.Job != nil && s.Job.Ref() == o.Job.Ref()
}

// Elsewhere reports whether it was submitted from another account.
func (s Submission) Elsewhere(account string) bool { return s.Account != "" && s.Account != account }

// Live reports whether there is or may be a job that waits or runs.
func (s Submission) Live() bool {
	return s.Tag != "" && s.Job == nil || s.Job != nil && !s.Job.State.Ended()
}

// InDoubt reports whether the submit command is over, and its result not known.
func (s Submission) InDoubt() bool { return s.Job == nil && !s.When.IsZero() }

// unlikeTime is how far the times of submission of one job may be apart: before the scheduler
// first reports the job, its time is by our clock.
const unlikeTime = 6 * time.Hour

// Matches reports whether a job that has the number of the recorded one is that job. A
// scheduler uses its numbers again, after a reinstallation or at their limit, and another
// account has its own.
func (s Submission) Matches(job api.Job, account string) bool {
	was := s.Job
	if was == nil {
		return true // it was found by its tag
	}
	sameTime := was.Submitted.Equal(job.Submitted)
	switch tag := TagOf(job); {
	case tag != "" && s.Tag != "":
		return tag == s.Tag
	case was.Name != "" && job.Name != "" && was.Name != job.Name:
		return false
	case s.Elsewhere(account):
		return sameTime && !was.Submitted.IsZero()
	case sameTime, was.Submitted.IsZero(), job.Submitted.IsZero(), job.Restarts > was.Restarts: // a requeue is a new submission for Slurm
		return true
	}
	return was.Submitted.Sub(job.Submitted).Abs() < unlikeTime
}

// TagOf is the tag of the submission that made a job; "" if that is not known, or none did. The
// path of a job's script has the tag, if the scheduler tells it.
func TagOf(job api.Job) string {
	_, path, _ := strings.Cut(job.Script, "/.tunctl/")
	tag, _, _ := strings.Cut(path, "/")
	return tag
}

// Submissions are all jobs of a session that may wait or run. One leaves the list only when the
// scheduler said that its job ended, or when its tag was missed twice; see Miss. The methods
// return changed copies.
type Submissions []Submission

// As returns the submission with a role; zero if there is none.
func (l Submissions) As(role Role) Submission {
	return lists.Find(l, func(s Submission) bool { return s.Role == role })
}

// Of returns the submission that made a job; zero if none did.
func (l Submissions) Of(job api.Job) Submission {
	return lists.Find(l, func(s Submission) bool {
		return s.Job != nil && s.Job.Ref() == job.Ref() || s.Tag != "" && s.Tag == TagOf(job)
	})
}

// Put adds a submission, or replaces its record. One that had its role is left behind.
func (l Submissions) Put(s Submission) Submissions {
	next := make(Submissions, 0, len(l)+1)
	placed := false
	for _, o := range l {
		switch {
		case o.Is(s) && !placed:
			next, placed = append(next, s), true
		case o.Is(s): // known by its number before by its tag
		case o.Role == s.Role && s.Role != RoleOther && (!o.Live() || o.Tag == ""): // over, or not ours
		case o.Role == s.Role && s.Role != RoleOther:
			o.Role = RoleOther
			next = append(next, o)
		default:
			next = append(next, o)
		}
	}
	if !placed {
		next = append(next, s)
	}
	return next
}

// Change changes the record of a submission, if the list has it.
func (l Submissions) Change(of Submission, change func(*Submission)) Submissions {
	return l.each(func(s *Submission) {
		if s.Is(of) {
			change(s)
		}
	})
}

func (l Submissions) each(change func(*Submission)) Submissions {
	next := slices.Clone(l)
	for i := range next {
		change(&next[i])
	}
	return next
}

// Drop removes a submission whose job the scheduler said to have ended, or which was never
// made.
func (l Submissions) Drop(s Submission) Submissions { return slices.DeleteFunc(slices.Clone(l), s.Is) }

const (
	// DoubtTime is how long after its submit command ended or was lost a job may still appear: a
	// stalled scheduler makes it when it recovers, and our submit command ends after two minutes.
	DoubtTime = 10 * time.Minute
	// MissApart is how far apart two queries are that do not find a tag.
	MissApart = time.Minute
)

// Miss records that a query which began at a time did not find a tag, and drops the submission
// once that is certain: two queries at least MissApart apart did not, the second no sooner than
// DoubtTime after the submit command.
func (l Submissions) Miss(s Submission, at time.Time) Submissions {
	switch {
	case !s.InDoubt():
		return l
	case s.Missed.IsZero():
		return l.Change(s, func(x *Submission) { x.Missed = at })
	case at.Sub(s.Missed) >= MissApart && at.Sub(s.When) >= DoubtTime:
		return l.Drop(s)
	}
	return l
}

// CancelAll records at a time that the user wants all of them ended. A submit command that is
// under way then sets its own time later.
func (l Submissions) CancelAll(at time.Time) Submissions {
	return l.each(func(s *Submission) {
		s.Cancel = true
		if s.Job == nil && s.When.IsZero() {
			s.When = at
		}
	})
}

// Unsettled are those that somebody has to look after even if nobody follows the session's job:
// in doubt, to be ended, or left behind.
func (l Submissions) Unsettled() Submissions {
	return slices.DeleteFunc(slices.Clone(l), func(s Submission) bool { return !s.InDoubt() && !s.Cancel && s.Role != RoleOther })
}

// AnyLive reports whether there is or may be a job that waits or runs.
func (l Submissions) AnyLive() bool { return slices.ContainsFunc(l, Submission.Live) }

// Pending reports whether a job may still appear.
func (l Submissions) Pending() bool { return slices.ContainsFunc(l, Submission.InDoubt) }

// Others are the jobs besides the session's and the one that follows it.
func (l Submissions) Others() []api.Job {
	var jobs []api.Job
	for _, s := range l {
		if s.Role == RoleOther && s.Job != nil && !s.Job.State.Ended() {
			job := *s.Job
			job.Host = s.Host
			if s.Cancel && job.State != api.JobCompleting {
				job.Hint = "you asked to end it, which is not done yet"
			}
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// Restarted is the list for an agent that starts: submit commands of the last one are lost, and
// what is in doubt stays so for DoubtTime from now, since the clock may have been set meanwhile. A file of
// version 1 does not have the host, which is the session's.
func (l Submissions) Restarted(host string, now time.Time) Submissions {
	return l.each(func(s *Submission) {
		s.Host = cmp.Or(s.Host, host)
		if s.Job == nil {
			s.When, s.Missed = now, time.Time{}
		}
	})
}
