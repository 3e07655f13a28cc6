package transfer

import "golang.org/x/sys/windows"

const (
	nonblock = 0 // no file is a FIFO
	errQuota = windows.ERROR_DISK_QUOTA_EXCEEDED
)
