//go:build !windows

package tunnel

import (
	"errors"
	"syscall"
)

// isConnRefused reports whether the port was closed.
func isConnRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// isConnReset reports whether the other end reset the connection.
func isConnReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
