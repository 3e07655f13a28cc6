package home

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

var fullDisk = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// ownedByUs relies on the ACLs of %LocalAppData%, which only its user can enter.
func ownedByUs(fs.FileInfo) bool { return true }
