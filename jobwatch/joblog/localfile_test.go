//go:build unix

package joblog

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tunctl/internal/dev/wait"
	"tunctl/jobwatch/remote"
)

func TestAFileOnThisComputerIsReadAsItChanges(t *testing.T) {
	dir := t.TempDir()
	limits := remote.DefaultLimits()
	limits.Stat, limits.LogFirst, limits.LogStarting = time.Hour, time.Hour, time.Hour // no polling here
	f := NewFollower(remote.Local{}, FollowOptions{Paths: []string{filepath.Join(dir, "*.log")}, Limits: limits})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	chunks := make(chan Chunk, 8)
	var done sync.WaitGroup
	done.Go(func() { _ = f.Serve(ctx, func(c Chunk) { chunks <- c }) })
	defer done.Wait()
	defer cancel()
	file, err := os.OpenFile(filepath.Join(dir, "job.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for _, want := range []string{"one\n", "two\n"} {
		if _, err := file.WriteString(want); err != nil {
			t.Fatal(err)
		}
		for seen := false; !seen; {
			select {
			case c := <-chunks:
				if seen = len(c.Data) > 0; seen && string(c.Data) != want {
					t.Fatalf("read %q, want %q", c.Data, want)
				}
			case <-tick.C: // it may have been written before the folder was watched: let something else happen there
				if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			case <-ctx.Done():
				t.Fatal("nothing was read")
			}
		}
	}
}
