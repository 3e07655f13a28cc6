// Package ctxtime has the waits for time and for a lock that end with a context, and that for the clock
// on the wall.
package ctxtime

import (
	"context"
	"time"
)

// Sleep waits for d, or returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SleepUntil waits until a time, if not zero, or until woken receives; false: ctx has ended.
func SleepUntil(ctx context.Context, until time.Time, woken <-chan struct{}) bool {
	var due <-chan time.Time
	if !until.IsZero() {
		due = time.After(time.Until(until))
	}
	select {
	case <-due:
	case <-woken:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// wallCheck is how often the wall clock is checked. Timers stop while a laptop sleeps,
// and a job's time limit does not.
const wallCheck = time.Minute

// WallTimer sends when it is t by the wall clock, or earlier, to check it again. It never
// sends if t is zero.
func WallTimer(t time.Time) <-chan time.Time {
	if t.IsZero() {
		return nil
	}
	return time.After(min(time.Until(t), wallCheck))
}

// Mutex is a lock whose wait ends with a context.
type Mutex chan struct{}

// NewMutex returns an unlocked mutex.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock waits for the lock, or returns the error of ctx if that ends first.
func (m Mutex) Lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock releases the lock, which the caller holds.
func (m Mutex) Unlock() { <-m }
