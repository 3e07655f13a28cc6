package jobwatch

import (
	"context"
	"time"

	"tunctl/internal/ctxtime"
)

// Start is what a scheduler says about when a job would start. All of it is an estimate.
type Start struct {
	At    time.Time // zero: it does not tell
	Words string    // what it tells besides or instead
	// Submitted is the job that a command submitted which should only have tested it;
	// Cancelled says that it was cancelled.
	Submitted string
	Cancelled bool
}

// TestStart asks the scheduler when a job would start, without submitting it. If the scheduler would refuse the job, that is an *api.Error with
// api.CodeSubmit. It counts as a query: callers wait for Limits.QueryMin.
func (w *Watcher) TestStart(ctx context.Context, s Submission) (Start, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return Start{}, err
	}
	if sched.kind().asksStart {
		unlock, err := w.awaitTurn(ctx)
		if err != nil {
			return Start{}, err
		}
		defer unlock()
	}
	start, err := sched.testStart(ctx, w.sh, s)
	if start.Submitted != "" {
		w.log.Warn("the test of a job submitted it", "job", start.Submitted, "cancelled", start.Cancelled)
		w.changed()
	}
	return start, err
}

// awaitTurn waits until no other command runs on the host, and the last query is
// Limits.QueryMin ago.
func (w *Watcher) awaitTurn(ctx context.Context) (unlock func(), err error) {
	for {
		w.mu.Lock()
		wait := time.Until(w.lastQuery.Add(w.limits.QueryMin))
		w.mu.Unlock()
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return nil, err
		}
		if unlock, err = w.lockHost(ctx); err != nil {
			return nil, err
		}
		w.mu.Lock()
		due := time.Since(w.lastQuery) >= w.limits.QueryMin
		if due {
			w.lastQuery = time.Now()
		}
		w.mu.Unlock()
		if due {
			return unlock, nil
		}
		unlock() // the watches have made a query meanwhile
	}
}
