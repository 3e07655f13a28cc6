package probe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel/forward"
)

// Page is a page that the session's job announces besides its main one, such as a
// dashboard. It is the dialer of its own forward: nothing is sent to it before its first
// use, which finds the way to it as for the main page.
type Page struct {
	Name   string
	prober *Prober // for its routes; it serves nothing
	target *Target
	since  time.Time // when it was announced
	way    *search[Route]
}

// NewPage is a page that was announced just now.
func NewPage(name string, o Options, t *Target) *Page {
	return &Page{Name: name, prober: New(o), target: t, since: time.Now(), way: newSearch[Route](o.Limits.Every)}
}

// SameAs reports whether two pages are one announcement, of one job.
func (p *Page) SameAs(o *Page) bool {
	return p.Name == o.Name && p.prober.Job == o.prober.Job && p.target.sameAs(o.target)
}

// Endpoint is the page as it was announced, or as it is reached once that is known.
func (p *Page) Endpoint() api.Endpoint {
	if route, _ := p.way.known(); route != nil {
		return route.Endpoint
	}
	return p.target.Finding.Endpoint
}

// Dial implements forward.Dialer.
func (p *Page) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return p.dial(ctx, func(t *forward.Target) (net.Conn, error) { return t.Dialer.Dial(ctx, t.Network, t.Address) })
}

// PageUpgrades is the dialer for clients of a page that ask for another protocol.
type PageUpgrades struct{ *Page }

// DialUpgrade implements forward.UpgradeDialer.
func (p PageUpgrades) DialUpgrade(ctx context.Context, _, _ string, request []byte) (net.Conn, error) {
	return p.dial(ctx, func(t *forward.Target) (net.Conn, error) {
		by := cmp.Or[forward.UpgradeDialer](t.Upgrades, forward.DirectUpgrades{Dialer: t.Dialer})
		return by.DialUpgrade(ctx, t.Network, t.Address, request)
	})
}

func (p *Page) dial(ctx context.Context, by func(*forward.Target) (net.Conn, error)) (net.Conn, error) {
	r, err := p.Find(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := by(r.Target())
	if errors.Is(err, api.ErrRefused) || errors.Is(err, api.ErrProhibited) {
		p.way.settle(nil, nil) // the next caller looks for another one
	}
	return conn, err
}

// Find returns the way to the page, which it looks for if none is known. After a search
// that failed, callers get its error for a moment: a browser asks again and again.
func (p *Page) Find(ctx context.Context) (*Route, error) {
	return p.way.find(ctx, func() (*Route, error) {
		result := p.prober.Prove(ctx, p.target, p.since)
		if result.Route == nil && ctx.Err() != nil {
			return nil, errors.New(result.Doing) // nothing is known
		}
		var failure error
		if result.Route == nil {
			failure = errors.New(result.Doing)
		}
		p.way.settle(result.Route, failure)
		return result.Route, failure
	})
}

// search keeps what callers look for once it is found. One of them looks at a time, and after a
// failure nobody does for a while.
type search[T any] struct {
	rest time.Duration // after a failure
	turn ctxtime.Mutex // held while a caller looks

	mu      sync.Mutex
	found   *T    // nil: nothing yet
	failure error // of the last attempt
	restTo  time.Time
}

func newSearch[T any](rest time.Duration) *search[T] {
	return &search[T]{rest: rest, turn: ctxtime.NewMutex()}
}

// known is what came of the last attempts, if it still holds.
func (s *search[T]) known() (*T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil && time.Now().Before(s.restTo) {
		return nil, s.failure
	}
	return s.found, nil
}

// find returns what is known, or else what look finds, which settles it.
func (s *search[T]) find(ctx context.Context, look func() (*T, error)) (*T, error) {
	if found, err := s.known(); found != nil || err != nil {
		return found, err
	}
	if err := s.turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Unlock()
	if found, err := s.known(); found != nil || err != nil {
		return found, err
	}
	return look()
}

// settle takes in what came of an attempt. A failure leaves what was found before.
func (s *search[T]) settle(found *T, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failure == nil {
		s.found = found
	}
	s.failure, s.restTo = failure, time.Now().Add(s.rest)
}
