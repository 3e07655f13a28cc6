//go:build unix

package jobwatch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestAFileOnThisComputerIsReadAsItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.log")
	limits := DefaultLimits()
	limits.Stat, limits.LogFirst, limits.LogStarting = time.Hour, time.Hour, time.Hour // no polling here
	f := NewFollower(Local{}, FollowOptions{Paths: []string{filepath.Join(filepath.Dir(file), "*.log")}, Limits: limits})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	chunks := make(chan Chunk, 8)
	var done sync.WaitGroup
	done.Go(func() { _ = f.Serve(ctx, func(c Chunk) { chunks <- c }) })
	defer done.Wait()
	defer cancel()
	for i, want := range []string{"one\n", "two\n"} {
		// The first write may come before the folder is watched: write until it is seen.
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for seen := false; !seen; {
			if err := os.WriteFile(file, []byte("one\ntwo\n"[:4*(i+1)]), 0o600); err != nil {
				t.Fatal(err)
			}
			select {
			case c := <-chunks:
				if seen = len(c.Data) > 0; seen && string(c.Data) != want {
					t.Fatalf("read %q, want %q", c.Data, want)
				}
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("nothing was read")
			}
		}
	}
}
