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

func newTimeout(limit time.Duration, onExpire func()) *timeout {
	t := &timeout{onExpire: onExpire, due: time.Now().Add(limit)}
	t.timer = time.AfterFunc(limit, t.expire)
	return t
}

func (t *timeout) expire() {
	t.mu.Lock()
	t.isExpired = true
	t.mu.Unlock()
	t.onExpire()
}

// restart starts a new limit, unless the old one is reached.
func (t *timeout) restart(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer.Stop() {
		t.due = time.Now().Add(limit)
		t.timer.Reset(limit)
	}
}

// shorten makes the limit end within a time.
func (t *timeout) shorten(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.due) > limit && t.timer.Stop() {
		t.due = time.Now().Add(limit)
		t.timer.Reset(limit)
	}
}

func (t *timeout) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer.Stop() {
		t.left = time.Until(t.due)
	}
}

func (t *timeout) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isExpired {
		t.due = time.Now().Add(t.left)
		t.timer.Reset(t.left)
	}
}

func (t *timeout) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// expired reports whether the limit was reached.
func (t *timeout) expired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isExpired
}
