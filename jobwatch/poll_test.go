package jobwatch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// undecided is a host with the programs of two schedulers, neither of which answers.
type undecided struct{ asked atomic.Int32 }

func (u *undecided) Run(ctx context.Context, _ string, stdin []byte) (Result, error) {
	u.asked.Add(1)
	time.Sleep(50 * time.Millisecond) // in a synctest bubble: the round trip
	mark := markOf.FindStringSubmatch(string(stdin))[1]
	return Result{Stdout: []byte(mark + ".begin\n\nmira\nlogin1\n\n" + mark + ".end 0\n")}, ctx.Err()
}

func TestAHostWhoseSchedulerIsNotKnownYetIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &undecided{}
		w := NewWatcher(u, Options{})
		ctx, stop := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { _ = w.Serve(ctx) })
		x := w.Watch("7")
		time.Sleep(10 * time.Minute)
		if n := u.asked.Load(); n < 2 || n > 10 {
			t.Errorf("it was asked %d times in ten minutes", n)
		}
		x.Close()
		stop()
		serving.Wait()
	})
}
