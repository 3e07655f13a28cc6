//go:build linux || freebsd || netbsd || openbsd || dragonfly

package desktop

import (
	"context"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// busTimeout bounds the handshake with the session bus.
const busTimeout = 5 * time.Second

// SessionBus makes a private connection to the user's session bus, which ends with
// ctx. It never starts a bus: a new one would have no desktop on it.
func SessionBus(ctx context.Context) (*dbus.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := dbus.SessionBusPrivateNoAutoStartup(dbus.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("find the session bus: %w", err)
	}
	// The library's handshake has no time limit of its own; closing ends it.
	limit := time.AfterFunc(busTimeout, cancel)
	err = conn.Auth(nil)
	if err == nil {
		err = conn.Hello()
	}
	if !limit.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("join the session bus: %w", err)
	}
	context.AfterFunc(conn.Context(), cancel)
	return conn, nil
}
