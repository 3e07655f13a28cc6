//go:build !windows

package userkeys

import (
	"fmt"
	"os"
	"syscall"
)

// checkPrivate refuses a key of ours that other users can read, as ssh does.
func checkPrivate(path string, info os.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(owner.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("other users can read it (%v): run chmod 600 %q", info.Mode().Perm(), path)
	}
	return nil
}
