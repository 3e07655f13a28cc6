//go:build !(linux || freebsd || netbsd || openbsd)

package tray

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// instance is this tray as the only one on its desktop: it holds a lock in the
// user's temporary folder. The desktop always has a panel, and ends us with itself.
type instance struct{ lock *flock.Flock }

// acquireInstance returns nil if another tray of that home runs.
func acquireInstance(_ context.Context, home string) (*instance, error) {
	sum := sha256.Sum256([]byte(home))
	lock := flock.New(filepath.Join(os.TempDir(), fmt.Sprintf("tunctl-tray-%x", sum[:8])))
	if alone, err := lock.TryLock(); err != nil || !alone {
		_ = lock.Close()
		if err != nil {
			err = fmt.Errorf("lock the tray: %w", err)
		}
		return nil, err
	}
	return &instance{lock}, nil
}

func (i *instance) release() { _ = i.lock.Close() }

// desktopGone is never closed.
func (*instance) desktopGone() <-chan struct{} { return nil }

func (*instance) awaitPanel(context.Context, func(string)) error { return nil }
