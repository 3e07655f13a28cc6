package agent

import (
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// errPaused is wrapped by the failure of a session that is not restored after crashes.
var errPaused = errors.New("the agent is paused")

// countCrash records that the last agent crashed. After several crashes in a row this
// agent starts paused: it restores no connection until a person acts, since each start
// may cost a login and end in the next crash.
func (a *Agent) countCrash() {
	now := time.Now()
	n, err := a.store.AddCrash(now, a.limits.CrashWindow)
	if err != nil {
		a.log.Warn("cannot save that the last agent crashed", "err", err)
	}
	a.log.Warn("the last agent crashed", "recently", n)
	if n < a.limits.Crashes {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = &api.Problem{
		Message: fmt.Sprintf("the agent crashed %d times within %s, so it does not connect automatically", n, api.DurationText(a.limits.CrashWindow)),
		Since:   now,
	}
}

// pausedError is why a session is not restored; nil if it is.
func (a *Agent) pausedError(session string) *api.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paused == nil {
		return nil
	}
	return api.Errorf(api.CodeFailed, "%s", a.paused.Message).Because(errPaused).
		WithHint("`tunctl up %s` connects all sessions again; `tunctl agent log` shows what happened before", session)
}

// resume ends a pause: a person has asked for something. It restores the other sessions.
func (a *Agent) resume() {
	a.mu.Lock()
	paused := a.paused
	a.paused = nil
	a.mu.Unlock()
	if paused == nil {
		return
	}
	a.log.Info("a person ended the pause after crashes")
	a.restore()
	a.hub.publish(api.Event{Type: api.EventStatus})
}
