package facts

import (
	"fmt"
	"regexp"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

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

// WithLog is a job that is over, with what the end of its log says about that.
func WithLog(j api.Job, excerpt string) api.Job {
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
