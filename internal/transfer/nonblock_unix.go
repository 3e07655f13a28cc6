//go:build !windows

package transfer

import "syscall"

// dontWait is for opening what turned into a FIFO meanwhile.
const dontWait = syscall.O_NONBLOCK
