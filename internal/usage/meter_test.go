package usage

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// noJob is a session without a job and without traffic.
type noJob struct{}

func (noJob) Run() Run                                    { return nil }
func (noJob) Traffic() (in, out, users int64)             { return 0, 0, 0 }
func (noJob) IdleAfter() time.Duration                    { return 0 }
func (noJob) PageUsed(context.Context) (time.Time, error) { return time.Time{}, nil }
func (noJob) SetIdle(string)                              {}

func TestMeterServesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter("nb", noJob{}, NewHub(), 10*time.Second, slog.New(slog.DiscardHandler))
		used := func() time.Time {
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.idle.used
		}
		attempt := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); m.Serve(ctx) }()
			return func() {
				cancel()
				<-done
			}
		}
		endFirst := attempt()
		before := used()
		time.Sleep(10 * time.Minute)
		endSecond := attempt()
		if got := used(); !got.Equal(before) {
			t.Errorf("a second attempt began at %v, while the first still measured", got)
		}
		endFirst()
		if got := used(); got.Equal(before) {
			t.Error("the second attempt did not begin after the end of the first")
		}
		endSecond()
	})
}
