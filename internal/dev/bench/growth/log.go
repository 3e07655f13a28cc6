//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/table"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

// measureLogs follows logs of different lengths until their ends. A long log is sparse:
// text at both ends, and between them the hole that is left when a log is emptied while
// its job writes.
func measureLogs(ctx context.Context) ([]table.Growth, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	took := table.Growth{Measure: "MB of log, read and searched", Unit: "s"}
	carried := table.Growth{Measure: "MB of log, over the network", Unit: "MB"}
	used := table.Growth{Measure: "MB of log, memory used", Unit: "MB"}
	for _, mb := range []int64{1, 10, 100, 1000, 10000} {
		file := filepath.Join(dir, fmt.Sprintf("%d.log", mb))
		if err := writeLog(file, mb*1e6); err != nil {
			return nil, err
		}
		c, err := follow(ctx, file, mb*1e6)
		if err != nil {
			return nil, fmt.Errorf("%d MB: %w", mb, err)
		}
		for g, cost := range map[*table.Growth]float64{&took: c.seconds, &carried: c.carried, &used: c.used} {
			g.Sizes, g.Costs = append(g.Sizes, float64(mb)), append(g.Costs, cost)
		}
	}
	return []table.Growth{took, carried, used}, nil
}

// writeLog writes a log of a size, of which at most 2 MB are on the disk.
func writeLog(file string, size int64) error {
	text := strings.Repeat("2026-11-15 20:00:00 epoch 12, batch 3401: loss 0.1234, 512 samples a second\n", 13_000) // 1 MB
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	end := min(size/2, int64(len(text)))
	if _, err := f.WriteString(text[:end]); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text[:end]), size-end)
	return err
}

type logCost struct{ seconds, carried, used float64 }

// follow follows a log until its end, and a moment longer.
func follow(ctx context.Context, file string, size int64) (logCost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &countingRunner{}
	f := joblog.NewFollower(r, joblog.FollowOptions{Paths: []string{file}, Enough: func() bool { return false }})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Serve(ctx, func(joblog.Chunk) {}) }) // it ends with ctx
	defer wg.Wait()
	defer cancel()
	for f.Position()[0].Offset < size || r.busy.Load() > 0 {
		if time.Since(began) > time.Minute {
			return logCost{}, fmt.Errorf("read until byte %d", f.Position()[0].Offset)
		}
		if err := ctxtime.Sleep(ctx, 20*time.Millisecond); err != nil {
			return logCost{}, err
		}
	}
	seconds := time.Since(began).Seconds()
	runtime.ReadMemStats(&after)
	return logCost{seconds, float64(r.carried.Load()) / 1e6, float64(after.TotalAlloc-before.TotalAlloc) / 1e6}, nil
}

// countingRunner is this computer, as a host at the end of a connection.
type countingRunner struct {
	busy, carried atomic.Int64
}

// Run implements remote.Runner.
func (r *countingRunner) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	r.busy.Add(1)
	defer r.busy.Add(-1)
	res, err := remote.Local{}.Run(ctx, command, stdin)
	r.carried.Add(int64(len(res.Stdout) + len(res.Stderr) + len(stdin)))
	return res, err
}
