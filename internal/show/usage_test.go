package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
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

func TestFree(t *testing.T) {
	for name, tt := range map[string]struct {
		free api.Free
		want []string
	}{
		"Slurm": {api.Free{Partitions: []api.Partition{
			{Name: "gpu", LimitSeconds: 4 * 3600, FreeTypes: map[string]int{"h100": 2, "a100": 0}, PartitionUsage: api.PartitionUsage{CPUs: 64, FreeCPUs: 8, GPUs: 8, FreeGPUs: 2, Waiting: 3}},
			{Name: "cpu", PartitionUsage: api.PartitionUsage{CPUs: 64, FreeCPUs: 64, IdleNodes: 1}},
		}}, []string{"gpu 0 8 0 a100, 2 h100 4 h 00 min 3", "cpu 1 64 - no limit 0"}},
		"PBS": {api.Free{
			Partitions: []api.Partition{{Name: "normal", LimitSeconds: 3600, PartitionUsage: api.PartitionUsage{Waiting: 7}}},
			Cluster:    api.PartitionUsage{CPUs: 64, FreeCPUs: 32, IdleNodes: 2, Guess: true},
		}, []string{"normal - - - 1 h 00 min 7", "(all) ~2 ~32 - - -"}},
		"Grid Engine": {api.Free{
			Partitions: []api.Partition{{Name: "all.q", PartitionUsage: api.PartitionUsage{CPUs: 8, FreeCPUs: 8, IdleNodes: 2, Guess: true}}},
			Cluster:    api.PartitionUsage{Waiting: 12},
		}, []string{"all.q ~2 ~8 - no limit -", "(all) - - - - 12"}},
	} {
		var out strings.Builder
		if err := (&term.Terminal{Out: &out}).PrintTable(Free(tt.free)); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
			if got := strings.Join(strings.Fields(line), " "); got != tt.want[i] {
				t.Errorf("%s: %q, want %q", name, got, tt.want[i])
			}
		}
	}
}
