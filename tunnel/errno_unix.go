//go:build !windows

package tunnel

import (
	"errors"
	"syscall"
)

// isConnRefused reports whether a port was closed.
func isConnRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// isConnReset reports whether the other end hung up without a word.
func isConnReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
