//go:build (dragonfly && cgo) || (freebsd && cgo) || linux || netbsd || openbsd

package main

import (
	"context"
	"errors"
	"os"

	"tunctl/internal/desktop"
)

// secretService is the name of a keyring on the session bus.
const secretService = "org.freedesktop.secrets"

// checkKeyring is the reason why no keyring can be used. The check must start nothing: D-Bus
// starts a bus and a keyring on request, also without a desktop on which the keyring could be
// unlocked, and they would keep running.
func checkKeyring(ctx context.Context) error {
	bus, err := desktop.SessionBus(ctx)
	if err != nil {
		return errors.New("there is no desktop session here (no D-Bus session bus)")
	}
	defer func() { _ = bus.Close() }()
	var running bool
	if err := bus.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, secretService).Store(&running); err != nil {
		return err
	}
	if !running && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("no keyring is running, and there is no desktop here to unlock one")
	}
	return nil
}
