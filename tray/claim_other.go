//go:build !(linux || freebsd || netbsd || openbsd || windows)

package tray

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim makes this the one companion of the person, by a lock in their own
// temporary folder.
func claim(instance string) (release func(), alone bool, err error) {
	sum := sha256.Sum256([]byte(instance))
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "tunctl-tray-"+hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("claim the tray: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("claim the tray: %w", err)
	}
	return func() { _ = f.Close() }, true, nil
}
