//go:build darwin && !cgo

package tray

import (
	"context"
	"log/slog"

	"tunctl/internal/api"
)

// panel stands where this build has no icon to show: macOS draws through Cocoa,
// which needs cgo.
type panel struct{}

func newPanel(*slog.Logger) *panel { return &panel{} }

// Show does nothing.
func (*panel) Show(Menu) {}

// Clicks tells nothing.
func (*panel) Clicks() <-chan string { return nil }

// Serve says why there is no icon.
func (*panel) Serve(context.Context, *seat, func(string)) error {
	return &api.Error{
		Code: api.CodeFailed, Message: "this build of tunctl has no tray icon on macOS",
		Hint: "build it with CGO_ENABLED=1 on a Mac; all commands work without it",
	}
}
