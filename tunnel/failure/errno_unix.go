//go:build !windows

package failure

import (
	"errors"
	"syscall"
)

// IsConnRefused reports whether the port was closed.
func IsConnRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// IsConnReset reports whether the other end reset the connection.
func IsConnReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
