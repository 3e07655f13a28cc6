package usage

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
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

func TestComputes(t *testing.T) {
	half, most := 4.0, 96.0
	for _, tt := range []struct {
		cpu  float64
		u    api.Usage
		want bool
	}{
		{4.9, api.Usage{CPUs: 4}, false},
		{5, api.Usage{CPUs: 1}, true},
		{100.0 / 128, api.Usage{CPUs: 128}, true}, // one CPU
		{0.1, api.Usage{CPUs: 128}, false},
		{0, api.Usage{CPUs: 8, GPUs: []api.GPUUsage{{Percent: &half}, {}}}, false},
		{0, api.Usage{CPUs: 8, GPUs: []api.GPUUsage{{Percent: &half}, {Percent: &most}}}, true},
	} {
		if got := computes(tt.cpu, tt.u); got != tt.want {
			t.Errorf("%.1f %% of %d CPUs: %v", tt.cpu, tt.u.CPUs, got)
		}
	}
}

func TestIdleText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := api.Job{End: time.Now().Add(96 * time.Minute)}
		gpus := make([]api.GPUUsage, 2)
		for want, tt := range map[string]struct {
			job   api.Job
			nodes int
			u     api.Usage
		}{
			"nb: idle for 30 min, 3.2 GPU-hours left in this job":             {ends, 1, api.Usage{GPUs: gpus, CPUs: 8}},
			"nb: idle for 30 min, 6.4 GPU-hours left in this job":             {ends, 2, api.Usage{GPUs: gpus}},
			"nb: idle for 30 min, 205 CPU-hours left in this job":             {ends, 1, api.Usage{CPUs: 128, Source: api.UsageStep}},
			"nb: idle for 30 min, 12.8 CPU-hours left in this job":            {ends, 2, api.Usage{CPUs: 8, Source: api.UsageScheduler}},
			"nb: idle for 30 min, and its job may run for another 1 h 36 min": {ends, 1, api.Usage{}},
			"nb: idle for 30 min, and its job has no time limit":              {api.Job{}, 0, api.Usage{CPUs: 4}},
		} {
			if got := idleText("nb", 30*time.Minute, tt.job, tt.nodes, tt.u); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
	})
}
