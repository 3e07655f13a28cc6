package show

import (
	"slices"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestTheUseOfAJobIsShownInWords(t *testing.T) {
	now := time.Date(2026, 11, 16, 14, 30, 0, 0, time.Local)
	percent := func(v float64) *float64 { return &v }
	for name, tt := range map[string]struct {
		u    *api.Usage
		want []string
	}{
		"nothing is known": {nil, nil},
		"why not":          {&api.Usage{Problem: "srun: no steps"}, []string{"! what the job uses is not known: srun: no steps"}},
		"everything": {
			&api.Usage{
				Source: api.UsageStep, CPUPercent: percent(12.4), CPUs: 4, Memory: 1.2e9, MemoryLimit: 16e9,
				GPUs: []api.GPUUsage{{Name: "A100", Percent: percent(87), Memory: 31e9, MemoryTotal: 40e9}, {}}, IdleSince: now.Add(-25 * time.Minute),
			},
			[]string{"12 % of 4 CPUs, memory 1.2 GB of 16 GB", "GPU 0 (A100) 87 %, memory 31 GB of 40 GB", "GPU 1 -", "idle since 14:05 (25 min)"},
		},
		"what PBS tells": {
			&api.Usage{Source: api.UsageScheduler, CPUPercent: percent(100), CPUs: 1, Memory: 21e6, IdleSince: now.Add(-time.Second)},
			[]string{"100 % of 1 CPU, memory 21 MB, as the scheduler has counted"},
		},
	} {
		if got := UsageNotes(tt.u, now); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
}
