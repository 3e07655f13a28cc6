package tunnel

import (
	"sync"
	"time"
)

// guard ends something that takes too long, and stands still while a person
// answers. It works where deadlines do not: a connection through a jump host has
// none, and x/crypto's Timeout ends with the TCP connect (golang/go#51926).
type guard struct {
	mu    sync.Mutex
	end   func()
	timer *time.Timer
	due   time.Time
	left  time.Duration // while paused
	fired bool
}

func newGuard(limit time.Duration, end func()) *guard {
	g := &guard{end: end, due: time.Now().Add(limit)}
	g.timer = time.AfterFunc(limit, g.fire)
	return g
}

func (g *guard) fire() {
	g.mu.Lock()
	g.fired = true
	g.mu.Unlock()
	g.end()
}

// restart begins a new limit.
func (g *guard) restart(limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer.Stop() {
		g.due = time.Now().Add(limit)
		g.timer.Reset(limit)
	}
}

func (g *guard) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer.Stop() {
		g.left = time.Until(g.due)
	}
}

func (g *guard) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.fired {
		g.due = time.Now().Add(g.left)
		g.timer.Reset(g.left)
	}
}

func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
}

// expired reports whether the limit was reached.
func (g *guard) expired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fired
}
