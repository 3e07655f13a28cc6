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
	argv, env := noteProgram(runtime.GOOS, note)
	return run(ctx, argv, env)
}

// Withdraw removes the note of a tag, if the system allows that.
func (*Notifier) Withdraw(ctx context.Context, tag string) error {
	argv, env := withdrawProgram(runtime.GOOS, tag)
	return run(ctx, argv, env)
}

func run(ctx context.Context, argv, env []string) error {
	if len(argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	if out, err := command(ctx, argv, env...).CombinedOutput(); err != nil {
		return fmt.Errorf("show a notification: %w: %s", err, out)
	}
	return nil
}
