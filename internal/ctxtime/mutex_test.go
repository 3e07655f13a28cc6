package ctxtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestALockIsOfOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMutex()
		if err := m.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a lock that is held: %v", err)
		}
		m.Unlock()
		if err := m.Lock(t.Context()); err != nil {
			t.Errorf("a lock that was released: %v", err)
		}
	})
}
