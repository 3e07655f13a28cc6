package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/kernel"
	"tunctl/tunnel/step"
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

// DialUpgrade implements forward.UpgradeDialer.
func (p *Page) DialUpgrade(ctx context.Context, _, _ string, request []byte) (net.Conn, error) {
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
	return p.way.find(ctx, func() (_ *Route, failure error) {
		result := p.prober.Prove(ctx, p.target, p.since)
		if result.Route == nil {
			failure = errors.New(result.Doing)
		}
		if failure == nil || ctx.Err() == nil { // else nothing is known
			p.way.settle(result.Route, failure)
		}
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

const (
	// insideTimeout is how long a page that is about to be ready, and a client while the way is not
	// proven, waits for a connection from inside the job.
	insideTimeout = 5 * time.Second
	// resumeTimeout is how long a client waits where there was one before: what holds the connections
	// inside the job may be reconnecting, and a client on another way stays there. It leaves a
	// forward's dial the time for that one.
	resumeTimeout, resumeRetry = 20 * time.Second, 250 * time.Millisecond
	// insideStart is how long the first one may take; the page does not wait for all of it.
	insideStart = time.Minute
	// insideRest is how long clients do not wait after one could not be opened.
	insideRest = time.Minute
)

// Upgrades dials for the clients of a page that ask for another protocol, such as WebSocket.
// From inside the job their connections outlive the one to the host; where that does not
// work they go the way of the page.
type Upgrades struct {
	node    Node
	page    api.Endpoint          // as the other clients reach it
	direct  forward.Dialer        // how they do
	choices []api.Endpoint        // the page as the node may dial it
	of      Options               // its prober's
	proven  *search[api.Endpoint] // of the choices, the one that answered
	looked  chan struct{}         // closed when the way was looked for once
}

// upgrades are those of a page that was announced as ep and answers over r; nil: TLS shows
// no upgrade, and what runs on the host itself has no job to go through. Clients of a new page
// find the way open. A page that answers again has the ones it had.
func (p *Prober) upgrades(ctx context.Context, t *Target, ep api.Endpoint, r Route) *Upgrades {
	if ep.Scheme != "http" || t.Node == "" || p.Job.SameAsHost(t.Node) {
		return nil
	}
	node, err := p.Job.Node(ctx, t.Node)
	if err != nil {
		return nil // the run is over
	}
	if u := p.last; u != nil && u.node == node && u.page == r.Endpoint {
		return u
	}
	u := &Upgrades{
		node: node, page: r.Endpoint, direct: r.Target().Dialer, of: p.Options, proven: newSearch[api.Endpoint](insideRest),
		looked: make(chan struct{}),
	}
	hosts := addressesOnNode(ep.Host)
	if ep.Socket != "" {
		hosts = []string{""}
	}
	for _, host := range hosts {
		ep.Host = host
		u.choices = append(u.choices, ep)
	}
	p.last = u
	u.prepare(ctx)
	return u
}

// DialUpgrade implements forward.UpgradeDialer. A request that may not reach the server twice, which
// no WebSocket begins with, goes the way of the page: one that timed out inside the job may have
// arrived.
func (u *Upgrades) DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error) {
	direct := forward.DirectUpgrades{Dialer: u.direct}
	if !forward.Repeatable(request) {
		return direct.DialUpgrade(ctx, network, address, request)
	}
	conn, err := u.dialInside(ctx, network, request)
	if err == nil || ctx.Err() != nil || errors.Is(err, step.ErrKept) || errors.Is(err, errLooking) {
		return conn, err
	}
	if conn, err = direct.DialUpgrade(ctx, network, address, request); err != nil {
		return nil, err
	}
	return forward.DirectConn{Conn: conn}, nil
}

func (u *Upgrades) dialInside(ctx context.Context, network string, request []byte) (net.Conn, error) {
	page, isKernel := kernel.Parse(request)
	if isKernel { // what the last agent has kept for a page is found first: a WebSocket on another way would end it
		waiting, cancel := context.WithTimeout(ctx, resumeTimeout)
		defer cancel()
		select {
		case <-u.looked:
		case <-waiting.Done():
			return nil, errLooking
		}
	}
	finding, cancel := context.WithTimeout(ctx, insideTimeout)
	defer cancel()
	ep, err := u.find(finding)
	if err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	for {
		var conn net.Conn
		if isKernel {
			conn, err = u.dialKernel(ctx, network, ep, page)
		} else {
			conn, err = u.node.DialInside(ctx, network, ep.Address(), request)
		}
		if errors.Is(err, api.ErrDown) && ctxtime.Sleep(ctx, resumeRetry) == nil {
			continue
		}
		u.settle(ep, err)
		return conn, err
	}
}

// errLooking has a browser try again.
var errLooking = errors.New("the way into the job is still looked for")

// dialKernel connects a page to its kernel, which outlives that connection while a cell of the page runs. What
// is kept for a page continues if the server accepts the page itself.
func (u *Upgrades) dialKernel(ctx context.Context, network string, ep *api.Endpoint, page kernel.Request) (net.Conn, error) {
	server := page.Server(func(ctx context.Context) (net.Conn, error) { return u.node.DialInside(ctx, network, ep.Address(), nil) })
	page.Kernel.Name, page.Kernel.Collect = u.of.Session, u.of.Collect
	conn, err := u.node.DialKernel(ctx, network, ep.Address(), page.Bytes, page.Kernel, func() error { return server.Accepts(ctx) })
	if err != nil {
		return nil, err
	}
	return kernel.New(conn, server), nil
}

// prepare opens the way from inside the job before the first client needs it. A way that takes
// longer is used once it is open.
func (u *Upgrades) prepare(ctx context.Context) {
	go func() {
		defer close(u.looked)
		starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), insideStart)
		defer cancel()
		_, _ = u.find(starting) // Failure has the error
	}()
	select {
	case <-u.looked:
	case <-time.After(insideTimeout):
		u.settle(nil, context.DeadlineExceeded)
	case <-ctx.Done():
	}
}

// Failure is why connections end with the one to the host; nil: they outlive it.
func (u *Upgrades) Failure() error {
	u.proven.mu.Lock()
	defer u.proven.mu.Unlock()
	return u.proven.failure
}

// find returns the page as the node dials it. By a wrong address the requests would be sent to
// another server, so each is probed first. After a failure callers get its error for a while.
func (u *Upgrades) find(ctx context.Context) (*api.Endpoint, error) {
	return u.proven.find(ctx, func() (*api.Endpoint, error) {
		var failures []error
		for i, ep := range u.choices {
			by := Route{Endpoint: ep, Dialer: insideDialer{u.node}}
			if i > 0 {
				by.guessed = u.node
			}
			err := by.probe(ctx)
			for (errors.Is(err, step.ErrLeft) || errors.Is(err, api.ErrDown)) && ctxtime.Sleep(ctx, resumeRetry) == nil {
				err = by.probe(ctx)
			}
			if err == nil || isIncomplete(err) {
				u.settle(&ep, nil)
				return &ep, nil
			}
			if failures = append(failures, err); ctx.Err() != nil {
				break
			}
		}
		err := errors.Join(failures...)
		u.settle(nil, err)
		return nil, err
	})
}

// settle takes in what came of an attempt. A host that is not connected says nothing about
// the way inside, nor does a slow moment of one that is proven.
func (u *Upgrades) settle(ep *api.Endpoint, err error) {
	switch {
	case errors.Is(err, api.ErrDown), errors.Is(err, context.Canceled), errors.Is(err, step.ErrLeft), ep != nil && errors.Is(err, context.DeadlineExceeded):
		return
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("nothing inside the job connected within %s", api.DurationText(insideTimeout))
	}
	if err != nil && u.Failure() == nil {
		u.of.Log.Info("websockets of the page end with the connection", "session", u.of.Session, "err", err)
	}
	u.proven.settle(ep, err)
}

// insideDialer dials from inside the job.
type insideDialer struct{ node Node }

// Dial implements forward.Dialer.
func (d insideDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.node.DialInside(ctx, network, address, nil)
}
