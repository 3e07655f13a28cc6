package ctxtime

import "context"

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
