//go:build !windows

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// eachResize calls f whenever the terminal's size may have changed, until ctx ends.
func eachResize(ctx context.Context, f func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			f()
		case <-ctx.Done():
			return
		}
	}
}
