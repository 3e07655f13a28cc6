//go:build unix

package home

import (
	"io/fs"
	"os"
	"syscall"
)

// closeToOthers takes away the rights of others on a folder.
func closeToOthers(dir string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a folder needs its x bit
}

var fullDisk = []error{syscall.ENOSPC, syscall.EDQUOT}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
