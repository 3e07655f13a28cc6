package tunnel

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isConnRefused reports whether a port was closed.
func isConnRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
