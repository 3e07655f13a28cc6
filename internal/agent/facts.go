package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// facts are what is known about a session. Its state follows from them alone.
type facts struct {
	name    string
	wanted  bool
	failure *api.Error // why the last attempt to bring it up ended
	// candidates are the jobs of the session's name among which a person has to choose.
	candidates []api.Job
	host       api.Host
	// served says that the session was ready since the person asked for it: a lost
	// connection means reconnecting, not connecting.
	served     bool
	needsJob   bool
	submitting bool
	job        *api.Job
	with       api.Choices     // what a person chose for job
	remembered *api.Job        // the job of an earlier attempt, until it is found
	next       *api.Job        // follows job, by keep = true
	waits      string          // how long jobs like it waited before
	remind     []time.Duration // how long before its end a person is reminded
	endpoint   *api.Endpoint
	link       string        // opened as it is: nothing is forwarded
	answers    bool          // the endpoint answered through the connection
	listeners  hostListeners // of the remote forwards
	doing      string        // what happens within the state
	silent     string        // the same, if it is that the job has written nothing for a while
	notInside  string        // the same, if it is that no command can be run inside the job
	unsaved    error         // why the session cannot be saved
	idle       bool          // a person was told that the job is idle, and it still is
	lapsed     bool          // there is no job, and no person permits a submission any more

	submissions state.Submissions // as they are recorded
}

// hostListeners are a session's forwards that listen on the host.
type hostListeners struct {
	pending string   // what the host has not confirmed yet, in words
	refused []string // what it refused, in words
	others  bool     // the session has forwards that work
}

// verdict is a state with its cause in words that a person can act on.
type verdict struct {
	state api.SessionState
	cause string
	hint  string
	code  api.Code
	asked bool // a person caused it
}

// derive is the one place that decides a session's state.
func (f *facts) derive(now time.Time) verdict {
	switch {
	case !f.wanted:
		return f.down(now)
	case f.failure != nil:
		return f.failed()
	case f.host.State != api.HostUp, !f.host.NotRespondingSince.IsZero():
		return f.unconnected(now)
	case f.needsJob && f.job == nil, f.submitting:
		return verdict{state: api.SessionSubmitting, cause: f.doing}
	case f.needsJob && f.job.State.Waiting():
		v := verdict{state: api.SessionQueued, cause: queuedCause(f.job, f.waits, now)}
		if neverStarts(f.job) {
			v.hint = fmt.Sprintf("`tunctl down %s --cancel` removes it; `tunctl up %s --with NAME=VALUE` then asks for something else", f.name, f.name)
		}
		return v
	case !f.answers && f.served && f.suspended():
		return verdict{state: api.SessionReconnecting, cause: f.job.Hint}
	case !f.answers && f.served:
		return verdict{state: api.SessionReconnecting, cause: f.doing}
	case !f.answers:
		v := verdict{state: api.SessionStarting, cause: f.doing}
		if f.job != nil && f.job.State == api.JobRunning && f.job.Reason != "" && f.job.Hint != "" {
			v.cause = f.job.Hint // it does not progress: its nodes are being prepared, or it is suspended
		}
		switch {
		case f.job == nil:
		case f.job.Hint == jobwatch.Spooled:
			v.hint = f.job.Hint
		case f.silent != "" && v.cause == f.silent:
			v.hint = fmt.Sprintf("the job may still be setting up, or write to another file: set log = \"…\" in [session.%s]", f.name)
		case f.notInside != "" && v.cause == f.notInside:
			v.hint = fmt.Sprintf("this needs ssh to the nodes, or Slurm's job steps (srun), if the site allows them; the job is charged meanwhile: `tunctl down %s --cancel` ends it", f.name)
		}
		return v
	case f.listeners.pending != "":
		return f.whileNotListening(verdict{state: api.SessionConnecting, cause: f.listeners.pending})
	case len(f.listeners.refused) > 0 && !f.listeners.others:
		return f.whileNotListening(f.refusedListeners(verdict{state: api.SessionFailed, code: api.CodeForward}))
	}
	return f.ready(now)
}

// choices are a person's choices for the session's job, or those for the next one.
func (f *facts) choices(asked api.Choices) api.Choices {
	switch {
	case len(asked) > 0:
		return asked
	case len(f.with) > 0 && (f.job != nil || f.submitting):
		return f.with
	}
	return nil
}

// down says when the job of a session that is down was last seen: it may have ended since.
func (f *facts) down(now time.Time) verdict {
	v := verdict{state: api.SessionDown, cause: f.doing}
	if f.submissions.Pending() {
		v.cause = "the result of a submission is not known: its job may still appear, and is charged then"
		v.hint = fmt.Sprintf("`tunctl down %s --cancel` ends it then; `tunctl jobs %s` shows whether it has appeared", f.name, f.host.Alias)
	}
	j := f.job
	if j == nil || j.State.Ended() {
		return v
	}
	v.hint = fmt.Sprintf("`tunctl up %s` reconnects; `tunctl down %s --cancel` ends the job", f.name, f.name)
	switch {
	case j.State == api.JobCompleting:
		v.cause, v.hint = fmt.Sprintf("job %s is about to end", j.ID), ""
	case f.submissions.As(state.RoleJob).Cancel:
		v.cause, v.hint = fmt.Sprintf("job %s is to be ended, which its scheduler has not confirmed yet", j.ID), ""
	case j.State.Waiting():
		v.cause = fmt.Sprintf("job %s was last seen queued%s, and will run", j.ID, seenAt(j, now))
	case !j.End.IsZero() && j.End.Before(now):
		v.cause = fmt.Sprintf("the time limit of job %s was %s; its scheduler was not asked since", j.ID, clock(j.End, now))
	case j.End.IsZero():
		v.cause = fmt.Sprintf("job %s was last seen running%s, and is charged while it runs", j.ID, seenAt(j, now))
	default:
		v.cause = fmt.Sprintf("job %s was last seen running%s; it is charged until %s at most", j.ID, seenAt(j, now), clock(j.End, now))
	}
	return v
}

// seenAt is when a job was last seen, if that is known.
func seenAt(j *api.Job, now time.Time) string {
	if j.Seen.IsZero() {
		return ""
	}
	return " at " + clock(j.Seen, now)
}

// whileNotListening is reconnecting for a session that had its listeners on the host
// before: the host's end of a lost connection keeps a port for a while.
func (f *facts) whileNotListening(v verdict) verdict {
	if f.served {
		v.state, v.code = api.SessionReconnecting, ""
	}
	return v
}

// refusedListeners says which forwards the host does not listen for, and why.
func (f *facts) refusedListeners(v verdict) verdict {
	v.cause = strings.Join(f.listeners.refused, "; ")
	v.hint = "the port may be in use there, or the host does not allow it (AllowTcpForwarding, PermitListen): " +
		"choose another port; tunctl retries this one from time to time"
	return v
}

// ready says what a person should know about a session that works.
func (f *facts) ready(now time.Time) verdict {
	v := verdict{state: api.SessionReady}
	var mark time.Duration // of the job's end that has passed
	if f.job != nil {
		mark, _ = passedMark(f.remind, *f.job, now)
	}
	switch {
	case len(f.listeners.refused) > 0:
		return f.refusedListeners(v)
	case f.job == nil:
	case f.job.State == api.JobUnknown, f.suspended():
		v.cause = f.job.Hint
	case mark > 0:
		v.cause = fmt.Sprintf("job %s ends at %s: save your work", f.job.ID, clock(f.job.End, now))
		v.hint = fmt.Sprintf("`tunctl extend %s 1h` asks for more time, if the site allows it", f.name)
		if f.next != nil {
			v.hint = fmt.Sprintf("job %s takes over, and the page moves with it", f.next.ID)
			if f.endpoint == nil {
				v.hint = fmt.Sprintf("job %s takes over", f.next.ID)
			}
		}
	case f.unsaved != nil:
		cause := f.unsaved
		if path, ok := errors.AsType[*fs.PathError](cause); ok {
			cause = path.Err
		}
		v.cause = fmt.Sprintf("tunctl cannot save its state: %v", cause)
		v.hint = "free disk space: until then, a restarted agent may not find this job again"
	case f.endpoint != nil && f.endpoint.Scheme == "https":
		v.hint = "the browser warns once about the self-signed certificate of the server; the connection itself is protected by SSH"
	}
	return v
}

// jobRuns reports whether the job runs, as far as is known, and can be reached.
func (f *facts) jobRuns() bool {
	running := f.job != nil && f.job.Node != "" && (f.job.State == api.JobRunning || f.job.State == api.JobUnknown)
	return running && f.wanted && f.failure == nil && f.host.State == api.HostUp && f.host.NotRespondingSince.IsZero()
}

// jobOver reports whether the session's job has ended.
func (f *facts) jobOver() bool { return f.job != nil && f.job.State.Ended() }

// suspended reports whether the job's processes are stopped, so that nothing answers.
func (f *facts) suspended() bool { return f.job != nil && f.job.Reason == jobwatch.Suspended }

// failed tells an ordinary end from a failure.
func (f *facts) failed() verdict {
	v := verdict{state: api.SessionFailed, cause: f.failure.Message, hint: f.failure.Hint, code: f.failure.Code}
	switch {
	case f.failure.Code == api.CodeJobEnded:
		v.state = api.SessionEnded
	case f.failure.Code == api.CodeNeedsPerson && !isUncertain(f.failure): // a login does not settle that
		v.state = api.SessionNeedsLogin
	}
	return v
}

func (f *facts) unconnected(now time.Time) verdict {
	v := verdict{state: api.SessionConnecting, cause: f.host.Cause, hint: f.host.Hint}
	switch {
	case f.host.State == api.HostNeedsLogin:
		v.state, v.code = api.SessionNeedsLogin, api.CodeNeedsPerson
	case f.host.State == api.HostDown: // the host of a wanted session is down only after a logout
		v.state, v.code, v.asked = api.SessionNeedsLogin, api.CodeNeedsPerson, true
		v.cause = "you logged out of " + f.host.Alias
		v.hint = fmt.Sprintf("`tunctl login %s` reconnects", f.host.Alias)
	case f.host.State == api.HostBlocked:
		v.state, v.code = api.SessionFailed, f.host.Code
	case f.served:
		v.state = api.SessionReconnecting
	}
	switch {
	case !f.lapsed:
	case v.state == api.SessionNeedsLogin:
		v.hint = fmt.Sprintf("log in and submit the job: `tunctl up %s` does both", f.name)
	case v.hint == "":
		v.hint = fmt.Sprintf("no job is submitted automatically: `tunctl up %s` submits one", f.name)
	}
	if f.job != nil && !f.job.State.Ended() && !f.job.End.IsZero() && f.job.End.Before(now) {
		v.cause += fmt.Sprintf("; job %s reached its time limit at %s", f.job.ID, clock(f.job.End, now))
	}
	return v
}

// queuedCause says why a job waits, when it will probably start and how long earlier
// jobs waited: in words, followed by the scheduler's own word.
func queuedCause(j *api.Job, waits string, now time.Time) string {
	cause := cmp.Or(j.Hint, j.Reason, "waiting in the queue")
	if j.Hint != "" && j.Reason != "" {
		cause += " (" + j.Reason + ")"
	}
	if j.State == api.JobConfiguring {
		cause = "the node is being prepared"
	}
	if j.ExpectedStart.After(now) {
		cause += ", expected start " + clock(j.ExpectedStart, now)
	}
	if waits != "" && j.State == api.JobQueued && !neverStarts(j) {
		cause += "; " + waits
	}
	return cause
}

// neverStarts reports whether waiting does not help a queued job.
func neverStarts(j *api.Job) bool { return strings.HasPrefix(j.Hint, jobwatch.NeverStarts) }

// clock writes a time of day, with the day if it is not today.
func clock(t, now time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}

// endedError says why the session's job is over. A job that never served has failed, and
// the person needs to know what to fix; one that did has only ended.
func endedError(cfg configs.Session, j *api.Job, served bool, excerpt, fix string) *api.Error {
	e := api.Errorf(api.CodeJobEnded, "%s", endText(j)).
		WithHint("%s; `tunctl logs %s` shows its log", startAgain(cfg), cfg.Name)
	if !served {
		e.Code = api.CodeFailed
		e.Message += ", before it served anything"
		e.Hint = fmt.Sprintf("`tunctl logs %s` shows the whole log; %s, then %s", cfg.Name, fix, runAgain(cfg))
	}
	if !served && isShell(cfg) {
		e.Message = endText(j) + ", before a command was run inside"
	}
	switch {
	case j.Hint == "":
	case j.State == api.JobNeverRan || j.State == api.JobCancelled && j.Start.IsZero(): // there is no log
		e.Hint = fmt.Sprintf("%s; then %s", j.Hint, runAgain(cfg))
	case j.Reason == jobwatch.Gone:
		e.Message += ": " + j.Hint
	}
	if excerpt != "" {
		e.Message += api.LogEndsWith + excerpt
	}
	return e
}

// startAgain says how to get a new job: only a session with submit starts one.
func startAgain(cfg configs.Session) string {
	if cfg.Submit == "" {
		return fmt.Sprintf("start the job on %s, then `tunctl up %s` finds it", cfg.Host, cfg.Name)
	}
	return fmt.Sprintf("`tunctl up %s` starts a new one", cfg.Name)
}

// runAgain says the same for after a fix.
func runAgain(cfg configs.Session) string {
	if cfg.Submit == "" {
		return fmt.Sprintf("start the job on %s again and run `tunctl up %s`", cfg.Host, cfg.Name)
	}
	return fmt.Sprintf("run `tunctl up %s` again", cfg.Name)
}

// endText says how and when a job ended.
func endText(j *api.Job) string {
	what := map[api.JobState]string{
		api.JobFinished:  "finished",
		api.JobFailed:    "failed",
		api.JobCancelled: "was cancelled",
		api.JobTimeout:   "reached its time limit",
		api.JobOOM:       "ran out of memory",
		api.JobNodeFail:  "ended because its node failed",
		api.JobPreempted: "was preempted by another job",
		api.JobNeverRan:  "was removed before it ran",
	}[j.State]
	switch {
	case j.Reason == jobwatch.Gone && j.State == api.JobFinished: // how is not known
		what = "ended"
	case what == "":
		what = "is gone"
	}
	if j.Exit != nil && *j.Exit != 0 && j.State == api.JobFailed {
		what += fmt.Sprintf(" with exit status %d", *j.Exit)
	}
	if now := time.Now(); !j.End.IsZero() && !j.End.After(now) {
		what += " at " + clock(j.End, now)
	}
	return fmt.Sprintf("job %s %s", j.ID, what)
}

// endedBy is a job that is over by now. While it ran, its end was the time limit.
func endedBy(j api.Job, now time.Time) api.Job {
	if j.End.IsZero() || j.End.After(now) {
		j.End = now
	}
	return j
}

// asGone is a remembered job that no longer exists: how it ended is not known.
func asGone(j api.Job) api.Job {
	j.State, j.Reason, j.Hint = api.JobUnknown, jobwatch.Gone, ""
	return j
}
