//go:build !(linux || freebsd || netbsd || openbsd)

package tray

import (
	"context"
	"errors"
)

// seat is this companion's place on the desktop, which always has a panel and ends
// us when it ends.
type seat struct{ release func() }

func takeSeat(_ context.Context, instance string) (*seat, error) {
	release, alone, err := claim(instance)
	if err != nil || !alone {
		return nil, err
	}
	return &seat{release}, nil
}

func (s *seat) leave() { s.release() }

// gone is never closed.
func (s *seat) gone() <-chan struct{} { return nil }

var errDesktopGone = errors.New("the desktop session ended")

func (s *seat) awaitPanel(context.Context, func(string)) error { return nil }
