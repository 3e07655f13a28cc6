//go:build darwin && !cgo

package tray

import (
	"context"
	"log/slog"

	"tunctl/internal/api"
)

// panel of a build that cannot show an icon: macOS draws with Cocoa, which needs cgo.
type panel struct{}

func newPanel(*slog.Logger) *panel { return &panel{} }

// Show does nothing.
func (*panel) Show(Menu) {}

// Clicks never has any.
func (*panel) Clicks() <-chan string { return nil }

// Serve returns why there is no icon.
func (*panel) Serve(context.Context, *instance, func(string)) error {
	return &api.Error{
		Code: api.CodeFailed, Message: "this build of tunctl has no tray icon on macOS",
		Hint: "build it with CGO_ENABLED=1 on a Mac; all commands work without it",
	}
}
