package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/ctxtime"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/retry"
	"tunctl/tunnel/step"
)

// route is one way onto a node, or into a job there. Its functions fail with a
// *failure.RouteError if the route itself does not work, and remember that if it is final.
type route struct {
	name string

	// Onto a node. Other errors are those of tunnel.Host.Dial.
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	limited bool // each connection takes a session

	// Into a job, by a relay: ready reports whether open works.
	relay *sharedRelay
	ready func(ctx context.Context) (step.Info, error)
	open  func(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)

	slow time.Time // when it last used up the time; guarded by routeFinder.finding
}

// routeFinder keeps the first of some routes that works. One caller at a time looks for it:
// each try is a login or a job step, which the site may count.
type routeFinder struct {
	what    string // fails if there is no route
	limits  *tunnel.Limits
	log     *slog.Logger
	routes  []*route
	finding ctxtime.Mutex

	mu     sync.Mutex
	chosen *route
	until  time.Time // when another is looked for; zero: once it does not work
	pause  pause     // after searches that found no route
}

func newRouteFinder(what string, limits *tunnel.Limits, log *slog.Logger, routes ...*route) routeFinder {
	return routeFinder{what: what, limits: limits, log: log, routes: routes, finding: ctxtime.NewMutex()}
}

// find is the route that works. If that is not known, it tries one after another: first the
// best, last those that used up the time, the latest of them at the end. Any error of try
// but a *failure.RouteError ends the search.
func (f *routeFinder) find(ctx context.Context, best string, try func(*route) error) (*route, error) {
	if r, err := f.known(); r != nil || err != nil {
		return r, err
	}
	if err := f.finding.Lock(ctx); err != nil {
		return nil, err
	}
	defer f.finding.Unlock()
	if r, err := f.known(); r != nil || err != nil {
		return r, err
	}
	var why []error
	for _, r := range f.order(best) {
		err := try(r)
		if !failure.IsRoute(err) {
			return r, err
		}
		f.log.Debug("a way to the node failed", "way", r.name, "err", err)
		why = append(why, err)
	}
	err := noRoute(f.what, why)
	f.failed(err)
	return nil, err
}

func (f *routeFinder) order(best string) []*route {
	list := slices.Clone(f.routes)
	slices.SortStableFunc(list, func(a, b *route) int {
		switch slower := a.slow.Compare(b.slow); {
		case slower != 0:
			return slower
		case a.name == best:
			return -1
		case b.name == best:
			return 1
		}
		return 0
	})
	return list
}

// noRoute says why none of the routes works, and what would help where srun is the last one.
func noRoute(what string, why []error) error {
	var texts []string
	for _, err := range why {
		if text := err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	err := fmt.Errorf("%s: %s", what, strings.Join(texts, "; "))
	if slices.ContainsFunc(why, func(err error) bool { return errors.Is(err, errNoPython) }) {
		err = fmt.Errorf("%w; tunctl needs python3 (3.6 or newer) on the node, or an sshd there that accepts your key", err)
	}
	return err
}

// known is the route that works; nil: it must be found. The error is that of a recent
// search.
func (f *routeFinder) known() (*route, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case f.chosen != nil && (f.until.IsZero() || now.Before(f.until)):
		return f.chosen, nil
	case now.Before(f.pause.until):
		return nil, f.pause.err
	}
	return nil, nil
}

// settle keeps a route until a time, if not zero; nil: another must be found.
func (f *routeFinder) settle(r *route, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chosen, f.until, f.pause = r, until, pause{}
}

func (f *routeFinder) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pause.failed(err, f.limits)
}

// pause is the wait after failures in a row.
type pause struct {
	failures int
	err      error // of the last one
	until    time.Time
}

func (p *pause) failed(err error, l *tunnel.Limits) {
	p.failures++
	p.err, p.until = err, time.Now().Add(retry.Backoff(p.failures, l.RetryMin, l.RetryMax, rand.Float64())) //nolint:gosec // jitter is no secret
}

// endedEarly is failed for something that worked at first: the first time it is tried again at once.
func (p *pause) endedEarly(err error, l *tunnel.Limits) {
	if p.failed(err, l); p.failures == 1 {
		p.until = time.Time{}
	}
}

// Learned is what nodes of one host have shown about it. It is for the next nodes of that
// host, and may be used by several at once.
type Learned struct {
	onto lastWorking[string] // the route onto a node
	into lastWorking[string] // the route into a job on a node
	srun lastWorking[srunOptions]
}

// learnedFor is how long what worked for one node comes first for others. It ends because
// a cheaper route may work meanwhile, for example with a newly registered key.
const learnedFor = time.Hour

// lastWorking is what last worked for a node of a host.
type lastWorking[T comparable] struct {
	mu    sync.Mutex
	what  T
	until time.Time
}

// get is zero if it is too long ago.
func (l *lastWorking[T]) get() (what T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		what = l.what
	}
	return what
}

func (l *lastWorking[T]) set(what T) {
	if l.get() == what {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what, l.until = what, time.Now().Add(learnedFor)
}
