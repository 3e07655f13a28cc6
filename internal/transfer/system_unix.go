//go:build !windows

package transfer

import "syscall"

const (
	nonblock = syscall.O_NONBLOCK // for a file that was replaced by a FIFO meanwhile
	errQuota = syscall.EDQUOT
)
