//go:build unix

package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// checkInstalled refuses an installed site that others than the administrator can change: its
// text becomes part of people's jobs. That includes the folders of the file, and those of the
// file that a link points to.
func checkInstalled(file string) error {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("reading a site: %w", err)
	}
	folder := filepath.Dir(file)
	for _, path := range []string{filepath.Dir(folder), folder, file, filepath.Dir(target)} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading a site: %w", err)
		}
		if info.Mode().Perm()&0o002 != 0 {
			return fmt.Errorf("%s is not used: everybody can change %s; `chmod o-w %s` prevents that", file, path, path)
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Getuid() {
			return fmt.Errorf("%s is not used: %s belongs to user %d, not to root; `chown root %s` changes that", file, path, owner.Uid, path)
		}
	}
	return nil
}
