package tunnel

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isConnRefused reports whether the port was closed.
func isConnRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// isConnReset reports whether the other end reset the connection.
func isConnReset(err error) bool { return errors.Is(err, windows.WSAECONNRESET) }
