package main

import (
	"context"
	"time"
)

// eachResize calls f whenever the terminal's size may have changed, until ctx ends.
// A console tells of its size only when asked.
func eachResize(ctx context.Context, f func()) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
