package failure

import (
	"errors"

	"golang.org/x/sys/windows"
)

// IsConnRefused reports whether the port was closed.
func IsConnRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// IsConnReset reports whether the other end reset the connection.
func IsConnReset(err error) bool { return errors.Is(err, windows.WSAECONNRESET) }
