// Package desktop does what needs the user's desktop: it opens pages, files and
// terminals, copies to the clipboard, shows notifications, and asks questions.
//
// It owns how a page with a secret in its address gets to the browser: by a link that
// works once, so that the secret is on no command line. It keeps no state between two
// calls, and knows neither the agent nor sessions.
package desktop

import (
	"errors"
	"os"
)

var (
	// ErrNoBrowser says that no browser can show a page: the caller prints the address.
	ErrNoBrowser = errors.New("no browser found")
	// ErrNotOpened says that a browser was started but did not request the page.
	ErrNotOpened = errors.New("the browser did not load the page")
	// ErrUnavailable says that this desktop has no such thing.
	ErrUnavailable = errors.New("not available on this desktop")
)

// graphical reports whether an X or Wayland display is named.
func graphical() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }

// wsl reports whether this is Linux inside Windows, where the browser is a
// Windows program.
func wsl() bool { return os.Getenv("WSL_DISTRO_NAME") != "" || os.Getenv("WSL_INTEROP") != "" }
