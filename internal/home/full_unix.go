//go:build unix

package home

import "syscall"

var fullDisk = []error{syscall.ENOSPC, syscall.EDQUOT}
