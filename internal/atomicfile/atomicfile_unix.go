//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

func rename(from, to string) error { return os.Rename(from, to) }

// Remove removes the file at path, also one that another program reads at the moment.
func Remove(path string) error { return os.Remove(path) }

// syncFolder writes the entries of a folder to the disk, so that a renamed file survives
// a power failure. Some file systems cannot do that, and a folder that can be written but
// not read cannot be opened for it; the file is in place nevertheless.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOTTY) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
