package jobwatch

import (
	"strings"

	"tunctl/internal/api"
)

// setState reads the letters of a state. Several may apply: a job that is held while it runs
// is "hr", one in error that waits "Eqw", one that runs again "Rr".
func (r geRow) setState(job *api.Job) {
	has := func(letters string) bool { return strings.ContainsAny(r.state, letters) }
	runs := r.group == "running" || has("rts") && !has("qw")
	if has("R") {
		job.Restarts = 1 // or more: it does not say
	}
	switch {
	case has("z") || r.group == "zombie" || r.group == "finished":
		job.State = api.JobFinished
	case has("d"):
		job.State = api.JobCompleting
	case has("E"):
		job.State, job.Reason = api.JobHeld, r.state
		job.Hint = geErrorHint("")
	case has("sSTNP") && runs:
		job.State, job.Reason, job.Hint = api.JobRunning, Suspended, suspendedHint
	case has("r") || runs && !has("t"):
		job.State = api.JobRunning
	case has("t"):
		job.State = api.JobConfiguring
	case has("h"):
		job.State, job.Reason = api.JobHeld, r.state
		job.Hint = "the job is held: release your own hold with qrls; otherwise it waits for another job, or the site holds it"
	case has("qwRP") || r.group == "pending":
		job.State = api.JobQueued
	default:
		job.State = api.JobUnknown
	}
}

// geErrorHint says what to do about a job in error, for which Grid Engine gave that cause.
func geErrorHint(cause string) string {
	words := "Grid Engine could not start it"
	if cause != "" {
		words += ": " + cause
	}
	return reason{words: words + ". Cancel it, fix this and submit it again; or clear the error with qmod -cj", never: true}.hint()
}
