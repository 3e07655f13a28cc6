package tunnel

import (
	"sync"
	"time"
)

// timeout calls a function when something takes too long. It pauses while a person
// answers in tunctl. It works where deadlines do not: a connection through a jump host has none,
// and x/crypto's Timeout covers only the TCP connect (golang/go#51926).
type timeout struct {
	mu        sync.Mutex
	onExpire  func()
	timer     *time.Timer
	due       time.Time
	person    bool // the limit is a person's, not the host's
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

// restart starts a new limit, of a person or of the host, unless the old one is reached or
// paused.
func (t *timeout) restart(person bool, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer.Stop() {
		t.startLocked(person, limit)
	}
}

func (t *timeout) startLocked(person bool, limit time.Duration) {
	t.person, t.due = person, time.Now().Add(limit)
	t.timer.Reset(limit)
}

// shorten makes the limit end within a time.
func (t *timeout) shorten(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.due) > limit && t.timer.Stop() {
		t.startLocked(t.person, limit)
	}
}

// resume ends a pause with a limit for a person: an answer may lead to another question,
// outside tunctl.
func (t *timeout) resume(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isExpired {
		t.startLocked(true, limit)
	}
}

// stop ends the limit, or pauses it.
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

// expiredForPerson reports whether the limit of a person was reached.
func (t *timeout) expiredForPerson() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isExpired && t.person
}
