//go:build darwin && !cgo

package tray

import (
	"context"
	"log/slog"

	"tunctl/internal/api"
)

// Available returns why this build cannot show the icon: macOS draws with Cocoa, which
// needs cgo.
func Available() error {
	return api.Errorf(api.CodeFailed, "this build of tunctl has no tray icon on macOS").
		WithHint("`make app` on a Mac builds tunctl.app with the icon; all commands work without it, and `tunctl status --watch` shows the same")
}

// panel of a build that cannot show an icon.
type panel struct{}

func newPanel(*slog.Logger) *panel { return &panel{} }

// Show does nothing.
func (*panel) Show(menu) {}

// Clicks never has any.
func (*panel) Clicks() <-chan choice { return nil }

// Serve returns why there is no icon.
func (*panel) Serve(context.Context, *instance, func(string)) error { return Available() }
