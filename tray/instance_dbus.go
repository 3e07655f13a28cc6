//go:build linux || freebsd || netbsd || openbsd

package tray

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

const (
	busName     = "io.github.tunctl.Tray"
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
	callTimeout = 3 * time.Second
)

// instance is this tray as the only one on its desktop: it owns a name on the session
// bus. The connection also shows when the desktop ends. It is not the connection that
// the tray library uses, which takes foreign signals for its own.
type instance struct{ conn *dbus.Conn }

// acquireInstance returns nil if another tray of that home runs on this desktop.
func acquireInstance(ctx context.Context, home string) (*instance, error) {
	conn, err := desktop.SessionBus(ctx)
	if err != nil {
		return nil, api.Errorf(api.CodeFailed, "no desktop session: the session bus cannot be reached").Because(err).
			WithHint("run the tray from a terminal on your desktop; over ssh, use `tunctl status --watch`")
	}
	name := busName
	if home != "" {
		sum := sha256.Sum256([]byte(home))
		name += fmt.Sprintf(".h%x", sum[:8])
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
	return &instance{conn}, nil
}

func (i *instance) release() { _ = i.conn.Close() }

// desktopGone is closed when the desktop session ends.
func (i *instance) desktopGone() <-chan struct{} { return i.conn.Context().Done() }

// awaitPanel returns once a panel takes tray icons. If none does yet, tell gets one
// message.
func (i *instance) awaitPanel(ctx context.Context, tell func(string)) error {
	changes := make(chan *dbus.Signal, 16)
	i.conn.Signal(changes)
	defer i.conn.RemoveSignal(changes)
	if err := i.conn.AddMatchSignal(
		dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, watcherName),
	); err != nil {
		return fmt.Errorf("watch for a panel: %w", err)
	}
	watcher, host := i.panel(ctx)
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
		case <-i.desktopGone():
			return errDesktopGone
		}
	}
	return nil
}

// panel reports whether a panel takes tray icons, and whether one shows them.
func (i *instance) panel(ctx context.Context) (watcher, host bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := i.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&watcher)
	if err != nil || !watcher {
		return false, false
	}
	var shows dbus.Variant
	err = i.conn.Object(watcherName, watcherPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
		watcherName, "IsStatusNotifierHostRegistered").Store(&shows)
	host, _ = shows.Value().(bool)
	return true, err == nil && host
}
