package usage

import (
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

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
