// Package facts says what follows from what is known about a session: its state and cause, what
// its job waits for or how it ended, and the words that the user reads about it, in tables and on
// the waiting page. It is pure: no clock, no lock, no input and no output. Who finds the facts out,
// and who enters the state, is package agent.
package facts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/words"
	"tunctl/jobwatch"
)

// Facts are what is known about a session. Its state follows from them alone.
type Facts struct {
	Name  string
	Saved state.Session // what survives a restart: whether it is wanted, why it failed, its jobs

	// What only this process knows:
	Started bool             // it brings the session up, or keeps it up
	Paused  *api.Error       // why it does not, after crashes
	Looking bool             // it does not know yet whether the saved job exists
	Over    state.Submission // the last job, until there is another
	// Candidates are the jobs of the session's name among which the user has to choose.
	Candidates []api.Job
	Host       api.Host
	// Served says that the session was ready since the user asked for it, maybe in the last
	// agent: a lost connection means reconnecting, not connecting.
	Served     bool
	NeedsJob   bool
	Submitting bool
	Waits      string          // how long jobs like it waited before
	Remind     []time.Duration // how long before its end the user is reminded
	Endpoint   *api.Endpoint
	Link       string        // opened as it is: nothing is forwarded
	Answers    bool          // the endpoint answered through the connection
	Listeners  Listeners     // of the remote forwards
	Doing      Doing         // what happens within the state
	Unsaved    error         // why the session cannot be saved
	FullDisk   bool          // the log of the job says so
	Idle       bool          // the user was told that the job is idle, and it still is
	IdleEnd    time.Time     // when the job ends unless it is used; zero: not known
	NotEnded   error         // why a job that the user wants ended was not
	Lapsed     bool          // there is no job, and no user permits a submission any more
	Permit     submit.Permit // the user's permission to submit its job
	Asked      submit.Plan   // what they chose for that; zero: nothing
}

// Doing is what happens within a state, in words, and what the user can do about it.
type Doing struct{ Text, Hint string }

// Wanted reports whether the session is to be up, and this process sees to it.
func (f *Facts) Wanted() bool { return f.Saved.Wanted && f.Started }

// Failure is why the last attempt to bring the session up ended; nil if it did not.
func (f *Facts) Failure() *api.Error { return cmp.Or(f.Paused, f.Saved.Failure) }

// Job is the session's job, or the last one if it is over; nil if none is known to exist.
func (f *Facts) Job() *api.Job { return f.submission().Job }

// Cancelled reports whether the user has asked for the end of Job.
func (f *Facts) Cancelled() bool { return f.submission().Cancel }

// submission is that of Job.
func (f *Facts) submission() state.Submission {
	sub := f.Saved.Current()
	switch {
	case f.Looking:
		return state.Submission{}
	case sub.Job == nil, sub.Job.State.Ended() && !f.Started:
		return f.Over
	}
	return sub
}

// ShowJobs adds to a session all its jobs that are or may become live, and its last one. One that is
// being looked for runs, as far as is known, and is charged.
func (f *Facts) ShowJobs(s *api.Session) {
	s.Job, s.Next, s.Others, s.Pending = f.Job(), f.Next(), f.Saved.Submissions.Others(), f.Saved.Submissions.Pending()
	if f.rejoins() {
		s.Job = f.Saved.Current().Job
	}
}

// rejoins reports whether a job that is known is being looked for: it may have ended since.
func (f *Facts) rejoins() bool { return f.Looking && IsLive(f.Saved.Current().Job) }

// outputKept is how long the output of cells is kept on the host.
const outputKept = 30 * 24 * time.Hour

// Cells counts the cells whose page is gone: as relays tell of them now, and as others told last.
func (f *Facts) Cells(told map[string]api.Cells, now time.Time) (all api.Cells) {
	for _, c := range told {
		all = all.Merge(c)
	}
	for relay, c := range f.KeptCells(now) {
		if _, ok := told[relay]; !ok {
			all = all.Merge(c.Cells)
		}
	}
	return all
}

// KeptCells are the cells that relays have told of, as long as their output is kept. Those that ran in a job that
// is over have ended with it.
func (f *Facts) KeptCells(now time.Time) map[string]state.KeptCells {
	kept, job := map[string]state.KeptCells{}, f.Saved.Current().Job
	for relay, c := range f.Saved.Cells {
		if !IsLive(job) || job.Ref() != c.Job || !job.End.IsZero() && now.After(job.End) {
			c.Finished, c.Running, c.Waiting = c.Finished+c.Running, 0, 0
		}
		if now.Sub(c.At) < outputKept {
			kept[relay] = c
		}
	}
	return kept
}

// Next is the job that follows it.
func (f *Facts) Next() *api.Job { return f.Saved.Next().Job }

// Listeners are a session's forwards that listen on the host.
type Listeners struct {
	Pending string   // what the host has not confirmed yet, in words
	Refused []string // what it refused, in words
	Others  bool     // the session has forwards that work
}

// Derived is a state with its cause in words that the user can act on.
type Derived struct {
	State api.SessionState
	Cause string
	Hint  string
	Code  api.Code
	Asked bool // the user caused it
}

// Derive is the one place that decides a session's state.
func (f *Facts) Derive(now time.Time) Derived {
	v := f.derive(now)
	if j := f.Job(); j != nil && j.State == api.JobCompleting && (v.State == api.SessionDown || !v.State.Settled()) {
		v.Cause, v.Hint = fmt.Sprintf("job %s is about to end", j.ID), ""
	}
	return v
}

func (f *Facts) derive(now time.Time) Derived {
	switch {
	case !f.Wanted():
		return f.down(now)
	case f.Failure() != nil:
		return f.failed()
	case f.Host.State != api.HostUp, !f.Host.NotRespondingSince.IsZero():
		return f.unconnected(now)
	case f.rejoins() && !f.Submitting && f.Served:
		return Derived{State: api.SessionReconnecting, Cause: f.Doing.Text}
	case f.NeedsJob && f.Job() == nil, f.Submitting:
		return Derived{State: api.SessionSubmitting, Cause: f.Doing.Text}
	case f.NeedsJob && f.Job().State.Waiting():
		v := Derived{State: api.SessionQueued, Cause: queuedCause(f.Job(), f.Waits, now)}
		if neverStarts(f.Job()) {
			v.Hint = fmt.Sprintf("`tunctl down %s --cancel` removes it; `tunctl up %s --with NAME=VALUE` then asks for something else", f.Name, f.Name)
		}
		return v
	case f.suspended() && (f.Served || f.Answers): // whatever its page said before
		return Derived{State: api.SessionReconnecting, Cause: f.Job().Hint}
	case !f.Answers && f.Served:
		return Derived{State: api.SessionReconnecting, Cause: f.Doing.Text}
	case !f.Answers:
		return f.starting()
	case f.Listeners.Pending != "":
		return f.whileNotListening(Derived{State: api.SessionConnecting, Cause: f.Listeners.Pending})
	case len(f.Listeners.Refused) > 0 && !f.Listeners.Others:
		return f.whileNotListening(f.refusedListeners(Derived{State: api.SessionFailed, Code: api.CodeForward}))
	}
	return f.ready(now)
}

// starting says what the job does before its page answers, or why it does not progress.
func (f *Facts) starting() Derived {
	v := Derived{State: api.SessionStarting, Cause: f.Doing.Text, Hint: f.Doing.Hint}
	j := f.Job()
	if j == nil {
		return v
	}
	if j.State == api.JobRunning && j.Reason != "" && j.Hint != "" { // its nodes are being prepared, or it is suspended
		v.Cause, v.Hint = j.Hint, ""
	}
	if j.Hint == api.HintSpooled {
		v.Hint = cmp.Or(v.Hint, j.Hint)
	}
	return v
}

// EndPermit ends the permission to submit: it was used, is not needed, or the user has cancelled the
// job.
func (f *Facts) EndPermit() {
	if !f.Permit.IsZero() {
		f.Permit, f.Asked = submit.Permit{}, submit.Plan{}
	}
}

// SettlePermit ends the permission if the scheduler says that the session has a job.
func (f *Facts) SettlePermit(r jobwatch.Report) {
	if f.Permit.SettledBy(r) {
		f.EndPermit()
	}
}

// Choices are the user's choices for the session's job, or those for the next one.
func (f *Facts) Choices() api.Choices {
	switch {
	case len(f.Asked.With) > 0:
		return f.Asked.With
	case f.Submitting:
		return f.Saved.Current().With
	}
	return f.submission().With
}

// down says when the job of a session that is down was last seen: it may have ended since.
func (f *Facts) down(now time.Time) Derived {
	v := Derived{State: api.SessionDown, Cause: f.Doing.Text}
	if f.Saved.Submissions.Pending() && !slices.ContainsFunc(f.Saved.Submissions, func(s state.Submission) bool { return s.InDoubt() && !s.Cancel }) {
		v.Cause = fmt.Sprintf("waiting up to %s until it is certain that a submission made no job; one that appears is ended", api.DurationText(state.DoubtTime))
	}
	j := f.Job()
	if j == nil || j.State.Ended() {
		return v
	}
	v.Hint = fmt.Sprintf("`tunctl up %s` reconnects; `tunctl down %s --cancel` ends the job", f.Name, f.Name)
	switch {
	case f.Saved.Current().Cancel:
		v.Cause, v.Hint = fmt.Sprintf("job %s is to be ended, which its scheduler has not confirmed yet", j.ID), ""
		if f.NotEnded != nil {
			v.Cause, v.Hint = fmt.Sprintf("job %s is to be ended, which is not done yet: %v", j.ID, f.NotEnded), api.HintOf(f.NotEnded)
		}
	case j.State.Waiting():
		v.Cause = fmt.Sprintf("job %s was last seen queued%s, and will run", j.ID, seenAt(j, now))
	case !j.End.IsZero() && j.End.Before(now):
		v.Cause = fmt.Sprintf("the time limit of job %s was %s; its scheduler was not asked since", j.ID, api.ClockText(j.End, now))
	default:
		v.Cause = fmt.Sprintf("job %s was last seen running%s; it is %s", j.ID, seenAt(j, now), words.Charged(*j, now))
	}
	return v
}

// seenAt is when a job was last seen, if that is known.
func seenAt(j *api.Job, now time.Time) string {
	if j.Seen.IsZero() {
		return ""
	}
	return " at " + api.ClockText(j.Seen, now)
}

// whileNotListening is reconnecting for a session that had its listeners on the host
// before: the host's end of a lost connection keeps a port for a while.
func (f *Facts) whileNotListening(v Derived) Derived {
	if f.Served {
		v.State, v.Code = api.SessionReconnecting, ""
	}
	return v
}

// refusedListeners says which forwards the host does not listen for, and why.
func (f *Facts) refusedListeners(v Derived) Derived {
	v.Cause = strings.Join(f.Listeners.Refused, "; ")
	v.Hint = "the port may be in use there, or the host does not allow it (AllowTcpForwarding, PermitListen): " +
		"choose another port; tunctl retries this one from time to time"
	return v
}

// ready says what the user should know about a session that works.
func (f *Facts) ready(now time.Time) Derived {
	v := Derived{State: api.SessionReady}
	var mark time.Duration // of the job's end that has passed
	if f.Job() != nil {
		mark, _ = PassedMark(f.Remind, *f.Job(), now)
	}
	switch {
	case len(f.Listeners.Refused) > 0:
		return f.refusedListeners(v)
	case f.Job() == nil:
	case f.Job().State == api.JobUnknown, f.suspended():
		v.Cause = f.Job().Hint
	case mark > 0:
		v.Cause = fmt.Sprintf("job %s ends at %s: save your work", f.Job().ID, api.ClockText(f.Job().End, now))
		v.Hint = fmt.Sprintf("`tunctl extend %s 1h` asks for more time, if the site allows it", f.Name)
		if f.Next() != nil {
			v.Hint = fmt.Sprintf("job %s takes over, and the page moves with it", f.Next().ID)
			if f.Endpoint == nil {
				v.Hint = fmt.Sprintf("job %s takes over", f.Next().ID)
			}
		}
	case f.Unsaved != nil:
		cause := f.Unsaved
		if path, ok := errors.AsType[*fs.PathError](cause); ok {
			cause = path.Err
		}
		v.Cause = fmt.Sprintf("tunctl cannot save its state: %v", cause)
		v.Hint = "free disk space: until then, a restarted agent may not find this job again"
	case f.Endpoint != nil && f.Endpoint.Scheme == "https":
		v.Hint = "the browser warns once about the self-signed certificate of the server; the connection itself is protected by SSH"
	}
	return v
}

// JobRuns reports whether the job runs, as far as is known, and can be reached.
func (f *Facts) JobRuns() bool {
	running := f.Job() != nil && f.Job().Node != "" && (f.Job().State == api.JobRunning || f.Job().State == api.JobUnknown)
	return running && f.Wanted() && f.Failure() == nil && f.Host.State == api.HostUp && f.Host.NotRespondingSince.IsZero()
}

// JobOver reports whether the session's job has ended.
func (f *Facts) JobOver() bool { return f.Job() != nil && f.Job().State.Ended() }

// suspended reports whether the job's processes are stopped, so that nothing answers.
func (f *Facts) suspended() bool { return f.Job() != nil && f.Job().Reason == api.ReasonSuspended }

// failed tells an ordinary end from a failure.
func (f *Facts) failed() Derived {
	_, doubt := errors.AsType[*jobwatch.DoubtError](f.Failure()) // a login does not settle that
	v := Derived{State: api.SessionFailed, Cause: f.Failure().Message, Hint: f.Failure().Hint, Code: f.Failure().Code}
	switch {
	case f.Failure().Code == api.CodeJobEnded:
		v.State = api.SessionEnded
	case f.Failure().Code == api.CodeNeedsPerson && !doubt:
		v.State = api.SessionNeedsLogin
	}
	return v
}

func (f *Facts) unconnected(now time.Time) Derived {
	v := Derived{State: api.SessionConnecting, Cause: f.Host.Cause, Hint: f.Host.Hint}
	switch {
	case f.Host.State == api.HostNeedsLogin:
		v.State, v.Code = api.SessionNeedsLogin, api.CodeNeedsPerson
	case f.Host.State == api.HostDown: // the host of a wanted session is down only after a logout
		v.State, v.Code, v.Asked = api.SessionNeedsLogin, api.CodeNeedsPerson, true
		v.Cause = "you logged out of " + f.Host.Alias
		v.Hint = fmt.Sprintf("`tunctl login %s` reconnects", f.Host.Alias)
	case f.Host.State == api.HostBlocked && IsLive(f.Job()): // which goes on
		v.State, v.Code = api.SessionNeedsLogin, f.Host.Code
	case f.Host.State == api.HostBlocked:
		v.State, v.Code = api.SessionFailed, f.Host.Code
	case f.Served:
		v.State = api.SessionReconnecting
	}
	switch {
	case !f.Lapsed:
	case v.State == api.SessionNeedsLogin:
		v.Hint = fmt.Sprintf("log in and submit the job: `tunctl up %s` does both", f.Name)
	case v.Hint == "":
		v.Hint = fmt.Sprintf("no job is submitted automatically: `tunctl up %s` submits one", f.Name)
	}
	if f.Job() != nil && !f.Job().State.Ended() && !f.Job().End.IsZero() && f.Job().End.Before(now) {
		v.Cause += fmt.Sprintf("; job %s reached its time limit at %s", f.Job().ID, api.ClockText(f.Job().End, now))
	}
	return v
}

// queuedCause says why a job waits, when it will probably start and how long earlier
// jobs waited.
func queuedCause(j *api.Job, waits string, now time.Time) string {
	cause := cmp.Or(j.Hint, j.Reason, "waiting in the queue")
	if j.State == api.JobConfiguring {
		cause = "the node is being prepared"
	}
	if j.ExpectedStart.After(now) {
		cause += ", expected start " + api.ClockText(j.ExpectedStart, now)
	}
	if waits != "" && j.State == api.JobQueued && !neverStarts(j) {
		cause += "; " + waits
	}
	return cause
}

// neverStarts reports whether waiting does not help a queued job.
func neverStarts(j *api.Job) bool { return strings.HasPrefix(j.Hint, api.HintNeverStarts) }
