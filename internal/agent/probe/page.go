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
	since  time.Time     // when it was announced
	search ctxtime.Mutex // held while a caller looks for the way

	mu      sync.Mutex
	route   *Route // the way that works; nil: none is known
	failure error  // of the last search
	restTo  time.Time
}

// NewPage is a page that was announced just now.
func NewPage(name string, o Options, t *Target) *Page {
	return &Page{Name: name, prober: New(o), target: t, since: time.Now(), search: ctxtime.NewMutex()}
}

// SameAs reports whether two pages are one announcement, of one job.
func (p *Page) SameAs(o *Page) bool {
	return p.Name == o.Name && p.prober.Job == o.prober.Job && p.target.sameAs(o.target)
}

// Endpoint is the page as it was announced, or as it is reached once that is known.
func (p *Page) Endpoint() api.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route != nil {
		return p.route.Endpoint
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
		p.settle(nil, nil) // the next caller looks for another way
	}
	return conn, err
}

// Find returns the way to the page, which it looks for if none is known. After a search
// that failed, callers get its error for a moment: a browser asks again and again.
func (p *Page) Find(ctx context.Context) (*Route, error) {
	if err := p.search.Lock(ctx); err != nil {
		return nil, err
	}
	defer p.search.Unlock()
	p.mu.Lock()
	found, failure := p.route, p.failure
	resting := time.Now().Before(p.restTo)
	p.mu.Unlock()
	switch {
	case found != nil:
		return found, nil
	case failure != nil && resting:
		return nil, failure
	}
	result := p.prober.Prove(ctx, p.target, p.since)
	if result.Route == nil {
		failure = errors.New(result.Doing)
		if ctx.Err() == nil { // else nothing is known
			p.settle(nil, failure)
		}
		return nil, failure
	}
	p.settle(result.Route, nil)
	return result.Route, nil
}

func (p *Page) settle(r *Route, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route, p.failure = r, failure
	p.restTo = time.Now().Add(p.prober.Limits.Every)
}
