//go:build !(linux || freebsd || netbsd || openbsd || dragonfly)

package desktop

import "context"

// Notifier would show notifications.
type Notifier struct{}

// NewNotifier says that this system's notifications are not supported.
func NewNotifier(context.Context) (*Notifier, error) { return nil, ErrUnavailable }

// Close does nothing.
func (*Notifier) Close() {}

// Notify says that this system's notifications are not supported.
func (*Notifier) Notify(context.Context, Note) error { return ErrUnavailable }
