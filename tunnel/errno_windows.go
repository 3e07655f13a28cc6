package tunnel

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isConnRefused reports whether a port was closed.
func isConnRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// isConnReset reports whether the other end hung up without a word.
func isConnReset(err error) bool { return errors.Is(err, windows.WSAECONNRESET) }
