//go:build linux || freebsd || netbsd || openbsd

package tray

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

const (
	seatName    = "io.github.tunctl.Tray"
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
	askLimit    = 3 * time.Second
)

// seat is this companion's place on the desktop: its connection to the session
// bus, by which it knows whether the desktop is still there. It is not the one the
// tray library uses, which takes foreign signals for its own.
type seat struct{ conn *dbus.Conn }

// takeSeat joins the desktop. It returns nil where another companion has the seat.
func takeSeat(ctx context.Context, instance string) (*seat, error) {
	conn, err := desktop.SessionBus(ctx)
	if err != nil {
		return nil, &api.Error{
			Code: api.CodeFailed, Err: err,
			Message: "no desktop session: the session bus cannot be reached",
			Hint:    "run the tray from a terminal on your desktop; over ssh, use `tunctl status --watch`",
		}
	}
	name := seatName
	if instance != "" {
		sum := sha256.Sum256([]byte(instance))
		name += ".h" + hex.EncodeToString(sum[:8])
	}
	got, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("take the companion's name on the session bus: %w", err)
	}
	if got != dbus.RequestNameReplyPrimaryOwner {
		_ = conn.Close()
		return nil, nil
	}
	return &seat{conn}, nil
}

// leave gives the place up.
func (s *seat) leave() { _ = s.conn.Close() }

// gone is closed when the desktop is.
func (s *seat) gone() <-chan struct{} { return s.conn.Context().Done() }

// errDesktopGone says that the session ended under us.
var errDesktopGone = errors.New("the desktop session ended")

// awaitPanel returns once there is something that keeps tray icons. While there is
// not, tell gets one message.
func (s *seat) awaitPanel(ctx context.Context, tell func(string)) error {
	changes := make(chan *dbus.Signal, 16)
	s.conn.Signal(changes)
	defer s.conn.RemoveSignal(changes)
	if err := s.conn.AddMatchSignal(
		dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, watcherName),
	); err != nil {
		return fmt.Errorf("watch for a panel: %w", err)
	}
	watcher, host := s.panel(ctx)
	if !watcher || !host {
		tell("No panel on this desktop shows tray icons. Notifications still work, and the icon appears once a panel does. " +
			"On GNOME, install and enable the AppIndicator extension (package gnome-shell-extension-appindicator).")
	}
	for !watcher {
		select {
		case c, ok := <-changes:
			if !ok {
				return errDesktopGone
			}
			owner := ""
			if len(c.Body) == 3 {
				owner, _ = c.Body[2].(string)
			}
			watcher = c.Name == "org.freedesktop.DBus.NameOwnerChanged" && owner != ""
		case <-ctx.Done():
			return nil
		case <-s.gone():
			return errDesktopGone
		}
	}
	return nil
}

// panel reports whether somebody keeps tray icons, and whether somebody shows them.
func (s *seat) panel(ctx context.Context) (watcher, host bool) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err := s.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&watcher)
	if err != nil || !watcher {
		return false, false
	}
	var shows dbus.Variant
	err = s.conn.Object(watcherName, watcherPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
		watcherName, "IsStatusNotifierHostRegistered").Store(&shows)
	host, _ = shows.Value().(bool)
	return true, err == nil && host
}
