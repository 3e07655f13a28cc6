package main

import (
	"runtime"

	"github.com/urfave/cli/v2"
)

// freeMainThread undoes what the tray's library does when the program starts: it ties
// the main goroutine to the main thread, where macOS draws. Only the tray needs that;
// elsewhere it makes every switch between goroutines slow.
func freeMainThread(c *cli.Context) error {
	if c.Args().First() != "tray" {
		runtime.UnlockOSThread()
	}
	return nil
}
