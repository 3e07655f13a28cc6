//go:build !(linux || freebsd || netbsd || openbsd)

package tray

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// seat is this companion's place on the desktop, which always has a panel and ends
// us when it ends. A lock in the person's own temporary folder keeps it.
type seat struct{ lock *flock.Flock }

func takeSeat(_ context.Context, instance string) (*seat, error) {
	sum := sha256.Sum256([]byte(instance))
	lock := flock.New(filepath.Join(os.TempDir(), "tunctl-tray-"+hex.EncodeToString(sum[:8])))
	if alone, err := lock.TryLock(); err != nil || !alone {
		_ = lock.Close()
		if err != nil {
			err = fmt.Errorf("lock the tray: %w", err)
		}
		return nil, err
	}
	return &seat{lock}, nil
}

func (s *seat) leave() { _ = s.lock.Close() }

// gone is never closed.
func (s *seat) gone() <-chan struct{} { return nil }

var errDesktopGone = errors.New("the desktop session ended")

func (s *seat) awaitPanel(context.Context, func(string)) error { return nil }
