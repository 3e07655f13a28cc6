package session

import (
	"fmt"
	"sync"
	"time"

	"tunctl/internal/api"
)

// pause is the state after crashes in a row: nothing connects automatically until the user acts,
// since each start may cost a login and end in the next crash.
type pause struct {
	mu      sync.Mutex
	problem *api.Problem // nil: none
}

// begin pauses the agent if it has crashed too often lately.
func (p *pause) begin(crashes int, limits Limits, now time.Time) {
	if crashes < limits.Crashes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = &api.Problem{
		Message: fmt.Sprintf("the agent crashed %d times within %s, so it does not connect automatically", crashes, api.DurationText(limits.CrashWindow)),
		Since:   now,
	}
}

// why is the reason of the pause; nil if there is none.
func (p *pause) why() *api.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}

// end ends the pause, and reports whether there was one.
func (p *pause) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused := p.problem != nil
	p.problem = nil
	return paused
}

// errorFor is why a session is not restored; nil if it is.
func (p *pause) errorFor(session string) *api.Error {
	problem := p.why()
	if problem == nil {
		return nil
	}
	return api.Errorf(api.CodeFailed, "%s", problem.Message).
		WithHint("`tunctl up %s` connects all sessions again; `tunctl agent log` shows what happened before", session)
}

// PauseAfter pauses what is restored if the agent has crashed too often lately.
func (r *Registry) PauseAfter(crashes int) { r.pause.begin(crashes, r.Limits, time.Now()) }

// Paused is why nothing is restored; nil if it is.
func (r *Registry) Paused() *api.Problem { return r.pause.why() }
