//go:build !(linux || freebsd || netbsd || openbsd || dragonfly)

package desktop

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// notifyLimit bounds a program that shows a notification.
const notifyLimit = 20 * time.Second

// Notifier shows notifications through the system's own script host. They have no
// buttons there.
type Notifier struct{ env environ }

// NewNotifier returns a notifier; there is nothing to connect to.
func NewNotifier(context.Context) (*Notifier, error) { return &Notifier{environOf(nil)}, nil }

// Close does nothing; what is shown stays.
func (*Notifier) Close() {}

// Notify shows note.
func (n *Notifier) Notify(ctx context.Context, note Note) error {
	return n.run(ctx, noteProgram(runtime.GOOS, note.bare()))
}

// Withdraw takes the note of a tag away, where the system lets us.
func (n *Notifier) Withdraw(ctx context.Context, tag string) error {
	return n.run(ctx, withdrawProgram(runtime.GOOS, tag))
}

func (n *Notifier) run(ctx context.Context, p program) error {
	if len(p.argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	path, err := n.env.find(p.argv[0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	cmd := exec.CommandContext(ctx, path, p.argv[1:]...)
	cmd.Env = n.env.with(p.env).list()
	cmd.SysProcAttr = detached()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("show a notification: %w: %s", err, out)
	}
	return nil
}
