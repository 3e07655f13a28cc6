package tunnel

import (
	"sync"
	"time"
)

// timeout calls a function when something takes too long. It pauses while a person
// answers. It works where deadlines do not: a connection through a jump host has none,
// and x/crypto's Timeout covers only the TCP connect (golang/go#51926).
type timeout struct {
	mu        sync.Mutex
	onExpire  func()
	timer     *time.Timer
	due       time.Time
	left      time.Duration // while paused
	isExpired bool
}

func newTimeout(limit time.Duration, end func()) *timeout {
	g := &timeout{onExpire: end, due: time.Now().Add(limit)}
	g.timer = time.AfterFunc(limit, g.expire)
	return g
}

func (g *timeout) expire() {
	g.mu.Lock()
	g.isExpired = true
	g.mu.Unlock()
	g.onExpire()
}

// restart starts a new limit, unless the old one is reached.
func (g *timeout) restart(limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer.Stop() {
		g.due = time.Now().Add(limit)
		g.timer.Reset(limit)
	}
}

func (g *timeout) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer.Stop() {
		g.left = time.Until(g.due)
	}
}

func (g *timeout) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isExpired {
		g.due = time.Now().Add(g.left)
		g.timer.Reset(g.left)
	}
}

func (g *timeout) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
}

// expired reports whether the limit was reached.
func (g *timeout) expired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isExpired
}
