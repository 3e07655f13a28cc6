//go:build !(linux || freebsd || netbsd || openbsd || dragonfly)

package desktop

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// notifyLimit bounds a program that shows a notification.
const notifyLimit = 20 * time.Second

// Notifier shows notifications with a script of macOS or Windows. They have no buttons.
type Notifier struct{}

// NewNotifier returns a notifier. It connects to nothing.
func NewNotifier(context.Context) (*Notifier, error) { return &Notifier{}, nil }

// Close does nothing; what is shown stays.
func (*Notifier) Close() {}

// Notify shows note.
func (*Notifier) Notify(ctx context.Context, note Note) error {
	return run(ctx, noteProgram(runtime.GOOS, note.withoutButtons()))
}

// Withdraw removes the note of a tag, if the system allows that.
func (*Notifier) Withdraw(ctx context.Context, tag string) error {
	return run(ctx, withdrawProgram(runtime.GOOS, tag))
}

func run(ctx context.Context, p program) error {
	if len(p.argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	if out, err := command(ctx, p.argv, p.env...).CombinedOutput(); err != nil {
		return fmt.Errorf("show a notification: %w: %s", err, out)
	}
	return nil
}
