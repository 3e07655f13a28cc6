//go:build darwin && !cgo

package tray

import (
	"context"

	"tunctl/internal/api"
)

// Available returns why this build cannot show the icon: macOS draws with Cocoa, which
// needs cgo.
func Available() error {
	return api.Errorf(api.CodeFailed, "this build of tunctl has no tray icon on macOS").
		WithHint("`make app` on a Mac builds tunctl.app with the icon; all commands work without it, and `tunctl status --watch` shows the same")
}

// Run returns why there is no icon.
func Run(context.Context, Options) error { return Available() }
