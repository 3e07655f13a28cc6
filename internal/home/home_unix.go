//go:build unix

package home

import (
	"io/fs"
	"os"
	"syscall"
)

var fullDisk = []error{syscall.ENOSPC, syscall.EDQUOT}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
