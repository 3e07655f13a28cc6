//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/dev/bench/table"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// measureJobs reads a scheduler's answers of different lengths.
func measureJobs(ctx context.Context) ([]table.Growth, error) {
	var rows []table.Growth
	for _, s := range []struct {
		name string
		line func(*strings.Builder, int)
	}{{"slurm", squeueRecord}, {"pbs", qstatRow}} {
		scheduler, line := s.name, s.line
		took := table.Growth{Measure: scheduler + " jobs, processor for one answer", Unit: "ms"}
		kept := table.Growth{Measure: scheduler + " jobs, memory kept", Unit: "MB"}
		used := table.Growth{Measure: scheduler + " jobs, memory used to read them", Unit: "MB"}
		for _, n := range []int{100, 1000, 20000} {
			c, err := readAnswer(ctx, scheduler, n, line)
			if err != nil {
				return rows, fmt.Errorf("%s, %d jobs: %w", scheduler, n, err)
			}
			for g, cost := range map[*table.Growth]float64{&took: c.ms, &kept: c.kept, &used: c.used} {
				g.Sizes, g.Costs = append(g.Sizes, float64(n)), append(g.Costs, cost)
			}
		}
		rows = append(rows, took, used, kept)
	}
	return rows, nil
}

// answerCost is what one answer costs.
type answerCost struct{ ms, used, kept float64 }

func readAnswer(ctx context.Context, scheduler string, jobs int, line func(*strings.Builder, int)) (answerCost, error) {
	var text strings.Builder
	if scheduler == "pbs" {
		text.WriteString(qstatHead)
	}
	for i := range jobs {
		line(&text, i)
	}
	limits := remote.DefaultLimits()
	limits.QueryMin = 1 // each call is a query
	w := jobwatch.NewWatcher(answer(text.String()), jobwatch.Options{Scheduler: scheduler, Limits: limits})
	cost := answerCost{ms: math.Inf(1)}
	for range 7 {
		runtime.GC()
		before, began := memory(), cpuTime()
		got, err := w.Jobs(ctx)
		spent := cpuTime() - began
		if err != nil {
			return answerCost{}, err
		}
		if len(got) != jobs {
			return answerCost{}, fmt.Errorf("%d jobs were read", len(got))
		}
		cost.ms = min(cost.ms, float64(spent)/float64(time.Millisecond))
		cost.used = float64(memory().TotalAlloc-before.TotalAlloc) / 1e6
	}
	runtime.GC()
	with := memory().HeapAlloc
	runtime.KeepAlive(w)
	w = nil //nolint:wastedassign // it is collected now
	runtime.GC()
	cost.kept = float64(with-memory().HeapAlloc) / 1e6
	return cost, nil
}

func memory() *runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &m
}

// cpuTime is what this process has used, which other programs on the machine change less
// than the time that passed.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// answer is a host whose scheduler always answers the same.
type answer string

var frameMark = regexp.MustCompile(`tunctl-[A-Z0-9]+`)

// Run implements remote.Runner. It prints what jobwatch's scripts print around an
// answer.
func (a answer) Run(_ context.Context, _ string, stdin []byte) (remote.Result, error) {
	mark := frameMark.FindString(string(stdin))
	if mark == "" {
		return remote.Result{}, errors.New("a script without a mark")
	}
	return remote.Result{
		Stdout: []byte(mark + ".begin\n" + string(a) + "\n" + mark + ".end 0\n"),
		Stderr: []byte(mark + ".begin\n\n" + mark + ".end\n"),
	}, nil
}

// squeueRecord is a job in the form that jobwatch asks squeue for.
func squeueRecord(b *strings.Builder, i int) {
	id := fmt.Sprint(40_000_000 + i)
	for _, field := range []string{
		id, id, "N/A", "PENDING", "gpu_p13", "", "1794702650", "N/A", "N/A", "0", "Priority",
		"/lustre/fswork/projects/rech/abc/u123/experiments/run-" + id + "/train.slurm",
		"/lustre/fswork/projects/rech/abc/u123/experiments/run-" + id + "/slurm-%j.out", "1", "u123", "n/a", "jean-zay",
	} {
		b.WriteString(field + "\x1f")
	}
	fmt.Fprintf(b, "sweep-%d\x1e\n", i)
}

const qstatHead = `
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
`

func qstatRow(b *strings.Builder, i int) {
	fmt.Fprintf(b, "%d.pbs101* u123     normal   sweep-%-5d  12345   1   4   16gb 24:00 R 01:%02d x1000c0s0b0n%d/0*4\n", 4_000_000+i, i, i%60, i%4)
}
