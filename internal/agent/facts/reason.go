package facts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/words"
	"tunctl/tunnel/forward"
)

// Reason describes a session's state for the waiting page in the browser.
func (f *Facts) Reason(v Derived, since, now time.Time) forward.Reason {
	host, page := cmp.Or(f.Host.Alias, "the host"), "Your notebook" // mostly it is one
	if !f.NeedsJob || f.Endpoint != nil && f.Endpoint.App != "" && f.Endpoint.App != "jupyter" {
		page = f.Name
	}
	r := forward.Reason{Text: words.Sentence(v.Cause, f.Host.Alias, f.Name), Hint: words.Capital(v.Hint, f.Host.Alias, f.Name), Since: since, Steps: f.steps(v.State, since)}
	switch v.State {
	case api.SessionConnecting:
		r.Title, r.Transient = "Connecting to "+host, true
	case api.SessionReconnecting:
		r = f.reconnecting(r, host, page)
	case api.SessionNeedsLogin:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, "Log in to continue", api.MenuLogin(host)
	case api.SessionSubmitting:
		r.Title, r.Transient = "Looking for the job", true
		if f.Submitting {
			r.Title = "Submitting the job"
		}
	case api.SessionQueued:
		r = f.queued(r, host, now)
	case api.SessionStarting:
		r.Title = page + " is starting"
	case api.SessionEnded:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" has ended", f.Name+" ▸ "+api.MenuStart
	case api.SessionFailed:
		if f.Paused != nil {
			r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" is disconnected", f.Name+" ▸ "+api.MenuStart
			break
		}
		r.Kind, r.Title, r.Tray = forward.ReasonTrouble, page+" could not start", f.Name+" ▸ "+api.MenuStart
		switch {
		case f.Failure() == nil && f.Host.State != api.HostUp:
			r.Title, r.Tray = "Cannot connect to "+host, host+" ▸ "+api.MenuHostLogin
		case f.Served:
			r.Title = page + " has failed"
		}
	case api.SessionDown, api.SessionReady:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" is not running", f.Name+" ▸ "+api.MenuStart
		if IsLive(f.Job()) && f.Job().State != api.JobCompleting && !f.Saved.Current().Cancel {
			r.Title, r.Tray = page+" is disconnected", f.Name+" ▸ "+api.MenuReconnect
		}
		r.Hint = cmp.Or(r.Hint, fmt.Sprintf("`tunctl up %s`", f.Name))
	}
	for _, link := range f.Host.Links { // text only: a server must not place a link on our page
		r.Facts = append(r.Facts, forward.Fact{Name: "Page of the login", Value: link})
	}
	if f.Lapsed && r.Kind == forward.ReasonProgress { // the user must ask for the job again
		r.Kind, r.Transient, r.Tray = forward.ReasonAttention, false, f.Name+" ▸ "+api.MenuStart
		r.Title = "Start " + strings.Replace(page, "Your", "your", 1) + " to continue"
	}
	return r
}

func (f *Facts) reconnecting(r forward.Reason, host, page string) forward.Reason {
	r.Transient = true
	switch {
	case f.suspended():
		r.Title = "The job is suspended"
	case f.Host.State != api.HostUp, !f.Host.NotRespondingSince.IsZero():
		r.Title = "Reconnecting to " + host
		if !f.Host.NotRespondingSince.IsZero() {
			r.Title = host + " is not responding"
		}
		if f.Job() != nil && !f.Job().State.Ended() {
			r.Text = strings.TrimSpace(r.Text + " The job keeps running meanwhile.")
		}
	default:
		r.Title = "Reconnecting to " + strings.Replace(page, "Your", "your", 1)
	}
	return r
}

// queued says why the job waits and how long, as far as that is known.
func (f *Facts) queued(r forward.Reason, host string, now time.Time) forward.Reason {
	j := f.Job()
	if j.State == api.JobHeld {
		r.Kind, r.Title, r.Text, r.Hint = forward.ReasonAttention, "The job is on hold", words.Sentence(j.Hint, f.Host.Alias, f.Name), ""
		return r
	}
	r.Title = "Waiting in the queue"
	if neverStarts(j) {
		r.Kind, r.Title = forward.ReasonAttention, "The job will not start"
		return r
	}
	r.Text = fmt.Sprintf("%s starts the job when it is its turn. You may close this page: the job keeps its place.", host)
	r.Hint = ""
	add := func(name, value string) {
		if value != "" {
			r.Facts = append(r.Facts, forward.Fact{Name: name, Value: value})
		}
	}
	why := words.Capital(cmp.Or(j.Hint, j.Reason))
	if j.State == api.JobConfiguring {
		why = "The node is being prepared"
	}
	add("Why", why)
	expected := "Not known yet"
	if j.ExpectedStart.After(now) {
		expected = fmt.Sprintf("%s, in %s", api.ClockText(j.ExpectedStart, now), api.DurationText(j.ExpectedStart.Sub(now).Round(time.Minute)))
	}
	add("Expected start", expected)
	add("Earlier waits", words.Capital(f.Waits))
	return r
}

// stepStates are the states on the way to a page, in order.
var stepStates = []api.SessionState{api.SessionConnecting, api.SessionSubmitting, api.SessionQueued, api.SessionStarting}

// steps are those to a job's page that was not open yet; nil if it was, or if the session is on
// no way to it. The current one began at since, unless the job's own times are known.
func (f *Facts) steps(state api.SessionState, since time.Time) []forward.Step {
	login := state == api.SessionNeedsLogin
	if login {
		state = api.SessionConnecting
		if job := f.Job(); job != nil && job.State.Waiting() { // also without a connection
			state = api.SessionQueued
		} else if job != nil && !job.State.Ended() {
			state = api.SessionStarting
		}
	}
	now := slices.Index(stepStates, state)
	if !f.NeedsJob || f.Served || now < 0 {
		return nil
	}
	var job api.Job
	if f.Job() != nil {
		job = *f.Job()
	}
	texts := []struct{ coming, current, done string }{
		{"", "Connecting to " + f.Host.Alias, "Connected to " + f.Host.Alias},
		{"Job", "Submitting the job", "Job " + job.ID},
		{"Queue", "Waiting in the queue", "Queue"},
		{"Start", strings.TrimSuffix("Starting on "+job.Node, " on "), ""},
	}
	steps := make([]forward.Step, len(texts))
	for i, text := range texts {
		switch {
		case i < now:
			steps[i] = forward.Step{State: forward.StepDone, Text: text.done}
		case i == now:
			steps[i] = forward.Step{State: forward.StepCurrent, Text: text.current, Since: since}
		default:
			steps[i] = forward.Step{State: forward.StepComing, Text: text.coming}
		}
	}
	if login {
		steps[0] = forward.Step{State: forward.StepCurrent, Text: "Login to " + f.Host.Alias, Since: since}
	}
	switch {
	case state == api.SessionQueued && !job.Submitted.IsZero():
		steps[now].Since = job.Submitted
	case state == api.SessionStarting && !job.Start.IsZero():
		steps[now].Since = job.Start
		if !job.Submitted.IsZero() {
			steps[now-1].Took = job.Start.Sub(job.Submitted)
		}
	}
	return steps
}

// StartedByHand is why no job follows an attached one.
const StartedByHand = "the job was not started by tunctl, so tunctl does not start it again"

// EndedError says why the session's job is over. A job that never served has failed, and
// the user needs to know what to fix; one that did has only ended.
func EndedError(cfg configs.Session, j *api.Job, served bool, excerpt, fix string, now time.Time) *api.Error {
	e := api.Errorf(api.CodeJobEnded, "%s", EndText(j, now)).
		WithHint("%s; `tunctl logs %s` shows its log", StartAgain(cfg), cfg.Name)
	if !served {
		e.Code = api.CodeFailed
		e.Message += ", before it served anything"
		e.Hint = fmt.Sprintf("`tunctl logs %s` shows the whole log; %s, then %s", cfg.Name, fix, runAgain(cfg))
	}
	if !served && cfg.App == configs.ShellApp {
		e.Message = EndText(j, now) + ", before a command was run inside"
	}
	switch {
	case j.Hint == "":
	case j.State == api.JobNeverRan || j.State == api.JobCancelled && j.Start.IsZero(): // there is no log
		e.Hint = fmt.Sprintf("%s; then %s", j.Hint, runAgain(cfg))
	case j.Reason == api.ReasonGone:
		e.Message += ": " + j.Hint
	}
	if excerpt != "" {
		e.Message += api.LogEndsWith + excerpt
	}
	return e
}

// slurmKilled matches what Slurm writes into the log of a job that it kills for its memory.
var slurmKilled = regexp.MustCompile(`slurmstepd.*(?:exceeded memory limit .*being killed|Exceeded job memory limit)`)

// unused matches what the script of a job prints at its end, if it was not used for as long as the session
// says, and how the log announces that before.
var (
	unused   = regexp.MustCompile(`(?m)^tunctl: the job ended (after \d+ minutes without use)`)
	idleLine = regexp.MustCompile(`(?m)^tunctl: end_idle: (?:not used; the job ends at (\S+)|the job is used again)$`)
)

// IdleEnd is when a job ends unless it is used, as a part of its log says it: zero if it is used again.
func IdleEnd(log []byte) (end time.Time, said bool) {
	all := idleLine.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return end, false
	}
	end, _ = time.Parse(time.RFC3339, string(all[len(all)-1][1]))
	return end, true
}

// unknownEnd is the reason of a job that may have ended itself, of which no log is known.
const unknownEnd = "with no log that is known, perhaps without use"

// WithLog is a job that is over, with what the end of its log says about that. If no log is known of one that
// may end itself (end_idle), it may have been unused; that a log could not be read just now says nothing.
func WithLog(j api.Job, excerpt string, mayEndItself bool) api.Job {
	if m := unused.FindStringSubmatch(excerpt); m != nil && j.State != api.JobTimeout {
		j.State, j.Reason = api.JobFinished, m[1]
	} else if mayEndItself && excerpt == "" && j.Log == "" && j.State == api.JobFinished && j.Reason != api.ReasonGone {
		j.Reason = unknownEnd
	}
	if j.State == api.JobFailed && slurmKilled.MatchString(excerpt) {
		j.State = api.JobOOM
	}
	return j
}

// StartAgain says how to get a new job: only a session with submit starts one.
func StartAgain(cfg configs.Session) string {
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

// EndText says how and when a job ended.
func EndText(j *api.Job, now time.Time) string {
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
	case j.Reason == api.ReasonGone && j.State == api.JobFinished: // how is not known
		what = "ended"
	case what == "":
		what = "is gone"
	case j.Reason == unknownEnd:
		what = "ended " + j.Reason
	case j.Unused():
		what = "ended automatically " + j.Reason
	}
	if j.Exit != nil && *j.Exit != 0 && j.State == api.JobFailed {
		what += fmt.Sprintf(" with exit status %d", *j.Exit)
	}
	if !j.End.IsZero() && !j.End.After(now) {
		what += " at " + api.ClockText(j.End, now)
	}
	return fmt.Sprintf("job %s %s", j.ID, what)
}

// EndedBy is a job that is over by now. While it ran, its end was the time limit.
func EndedBy(j api.Job, now time.Time) api.Job {
	if j.End.IsZero() || j.End.After(now) {
		j.End = now
	}
	return j
}

// Gone is a remembered job that no longer exists: how it ended is not known.
func Gone(j api.Job) api.Job {
	j.State, j.Reason, j.Hint = api.JobUnknown, api.ReasonGone, ""
	return j
}

// IsLive reports whether there is a job that is not over.
func IsLive(job *api.Job) bool { return job != nil && !job.State.Ended() }

// PassedMark returns the last of the marks before a job's end that has passed, 0 for none,
// and when the next mark or the end comes. Marks longer than the job do not count.
func PassedMark(marks []time.Duration, job api.Job, now time.Time) (mark time.Duration, next time.Time) {
	if job.State.Ended() || job.State.Waiting() || !job.End.After(now) {
		return 0, time.Time{}
	}
	next = job.End
	for _, m := range marks { // from the longest to the shortest
		at := job.End.Add(-m)
		switch {
		case !job.Start.IsZero() && !at.After(job.Start):
		case at.After(now):
			return mark, at
		default:
			mark = m
		}
	}
	return mark, next
}

// NotRunning says why nothing runs inside the session's job, and what to run. The session is as it
// is shown; start is how to get a new job, and followed whether the current one is followed.
func (f *Facts) NotRunning(shown api.Session, cfg configs.Session, start string, followed bool, now time.Time) *api.Error {
	job, state, name := f.Job(), shown.State, shown.Name
	cause, _, _ := strings.Cut(shown.Cause, "\n") // without the end of a log
	up := fmt.Sprintf("`tunctl up %s`", name)
	failed := func(code api.Code, hint, format string, args ...any) *api.Error {
		return api.Errorf(code, format, args...).WithHint("%s", hint)
	}
	notReady := func(format string, args ...any) *api.Error {
		return failed(api.CodeNotReady, up+" waits for it", format, args...)
	}
	switch {
	case f.JobOver():
		return failed(api.CodeJobEnded, start, "%s", EndText(job, now))
	case job != nil && (job.State == api.JobCompleting || f.Cancelled()):
		return failed(api.CodeJobEnded, start, "job %s of session %s is ending", job.ID, name)
	case state == api.SessionDown && IsLive(shown.Job):
		return failed(api.CodeNotReady, up+" reconnects", "session %s is %s: %s", name, words.Session(shown, now), cause)
	case state == api.SessionDown:
		if cfg.Submit != "" {
			start = up + " starts it"
		}
		return failed(api.CodeNotReady, start, "session %s is down: it has no job", name)
	case state == api.SessionEnded, state == api.SessionFailed:
		return failed(api.CodeNotReady, cmp.Or(shown.Hint, start), "session %s has no running job: %s", name, cause)
	case state == api.SessionNeedsLogin && !followed:
		return failed(api.CodeNotReady, up+" logs in and waits for the job", "session %s waits for you to log in to %s", name, cfg.Host)
	case job == nil && IsLive(shown.Job):
		return notReady("session %s is reconnecting to job %s", name, shown.Job.ID)
	case job == nil && state == api.SessionSubmitting:
		return notReady("session %s has no job yet: tunctl is looking for it or submitting it", name)
	case job == nil:
		return notReady("session %s is connecting to %s", name, cfg.Host)
	case job.State.Waiting() && state == api.SessionQueued && cause != "":
		return notReady("job %s of session %s is still queued: %s", job.ID, name, cause)
	case job.State.Waiting():
		return notReady("job %s of session %s is still queued", job.ID, name)
	case job.Node == "":
		return notReady("the scheduler has not said yet on which node job %s of session %s runs", job.ID, name)
	}
	// Known from before, or submitted a moment ago.
	return notReady("tunctl is only just beginning to follow job %s of session %s", job.ID, name)
}
