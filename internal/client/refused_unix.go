//go:build unix

package client

import "syscall"

// refused is what a socket without an agent behind it answers.
const refused = syscall.ECONNREFUSED
