package facts

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

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
	case state == api.SessionDown && IsLive(shown.Job):
		return failed(api.CodeNotReady, up+" reconnects", "session %s is down: %s", name, cause)
	case state == api.SessionDown:
		if cfg.Submit != "" {
			start = up + " starts it"
		}
		return failed(api.CodeNotReady, start, "session %s is down: it has no job", name)
	case f.JobOver():
		return failed(api.CodeJobEnded, start, "%s", EndText(job, now))
	case state == api.SessionEnded, state == api.SessionFailed:
		return failed(api.CodeNotReady, cmp.Or(shown.Hint, start), "session %s has no running job: %s", name, cause)
	case state == api.SessionNeedsLogin && !followed:
		return failed(api.CodeNotReady, up+" logs in and waits for the job", "session %s waits for you to log in to %s", name, cfg.Host)
	case job == nil && state == api.SessionSubmitting:
		return notReady("session %s has no job yet: tunctl is looking for it or submitting it", name)
	case job == nil:
		return notReady("session %s is connecting to %s", name, cfg.Host)
	case job.State.Waiting() && state == api.SessionQueued && cause != "":
		return notReady("job %s of session %s is still queued: %s", job.ID, name, cause)
	case job.State.Waiting():
		return notReady("job %s of session %s is still queued", job.ID, name)
	case job.State == api.JobCompleting:
		return failed(api.CodeJobEnded, start, "job %s of session %s is ending", job.ID, name)
	case job.Node == "":
		return notReady("the scheduler has not said yet on which node job %s of session %s runs", job.ID, name)
	}
	// Known from before, or submitted a moment ago.
	return notReady("tunctl is only just beginning to follow job %s of session %s", job.ID, name)
}
