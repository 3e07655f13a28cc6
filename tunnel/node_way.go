package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/ctxtime"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/retry"
)

// way is one way onto a node, or into a job there. Its functions fail with a *noWayError
// if the way itself does not work, and remember that if it is final.
type way struct {
	name string

	// Onto a node. Other errors are those of Host.Dial.
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	limited bool // each connection takes a session

	// Into a job: ready reports whether open works.
	ready func(ctx context.Context) error
	open  func(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)

	slow time.Time // when it last used up the time; guarded by wayFinder.finding
}

// noWayError says that one way does not work, whatever listens there.
type noWayError struct {
	way string
	err error
}

func (e *noWayError) Error() string { return e.way + ": " + e.err.Error() }
func (e *noWayError) Unwrap() error { return e.err }

func isNoWay(err error) bool {
	_, bad := errors.AsType[*noWayError](err)
	return bad
}

// isFinal reports whether a way that failed like this must not be tried again: the site
// counts refused logins.
func isFinal(err error) bool {
	switch failure.Of(err) {
	case failure.Refused, failure.NeedsUser, failure.Permanent:
		return true
	}
	return false
}

// wayFinder keeps the first of some ways that works. One caller at a time looks for it:
// each try is a login or a job step, which the site may count.
type wayFinder struct {
	what    string // fails if there is no way
	limits  *Limits
	log     *slog.Logger
	ways    []*way
	finding ctxtime.Mutex

	mu     sync.Mutex
	chosen *way
	until  time.Time // when another is looked for; zero: once it does not work
	pause  pause     // after searches that found no way
	ended  error     // the job has ended
}

func newWayFinder(what string, limits *Limits, log *slog.Logger, ways ...*way) wayFinder {
	return wayFinder{what: what, limits: limits, log: log, ways: ways, finding: ctxtime.NewMutex()}
}

// find is the way that works. If that is not known, it tries one after another: first the
// best, last those that used up the time, the latest of them at the end. Any error of try
// but a *noWayError ends the search.
func (f *wayFinder) find(ctx context.Context, best string, try func(*way) error) (*way, error) {
	if w, err := f.known(); w != nil || err != nil {
		return w, err
	}
	if err := f.finding.Lock(ctx); err != nil {
		return nil, err
	}
	defer f.finding.Unlock()
	if w, err := f.known(); w != nil || err != nil {
		return w, err
	}
	var why []error
	for _, w := range f.order(best) {
		err := try(w)
		if !isNoWay(err) {
			return w, err
		}
		f.log.Debug("a way to the node failed", "way", w.name, "err", err)
		why = append(why, err)
	}
	err := noWays(f.what, why)
	f.failed(err)
	return nil, err
}

func (f *wayFinder) order(best string) []*way {
	list := slices.Clone(f.ways)
	slices.SortStableFunc(list, func(a, b *way) int {
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

// noWays says why none of the ways works, and what would help where srun is the last one.
func noWays(what string, why []error) error {
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

// known is the way that works; nil: it must be found. The error is that of a recent
// search.
func (f *wayFinder) known() (*way, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case f.ended != nil:
		return nil, f.ended
	case f.chosen != nil && (f.until.IsZero() || now.Before(f.until)):
		return f.chosen, nil
	case now.Before(f.pause.until):
		return nil, f.pause.err
	}
	return nil, nil
}

// settle keeps a way until a time, if not zero; nil: another must be found.
func (f *wayFinder) settle(w *way, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chosen, f.until, f.pause = w, until, pause{}
}

func (f *wayFinder) failed(err error) {
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

func (p *pause) failed(err error, l *Limits) {
	p.failures++
	p.err, p.until = err, time.Now().Add(retry.Backoff(p.failures, l.RetryMin, l.RetryMax, jitter()))
}

// nodeWayFor is how long what worked for one node comes first for others. It ends because
// a cheaper way may work meanwhile, for example with a newly registered key.
const nodeWayFor = time.Hour

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
	l.what, l.until = what, time.Now().Add(nodeWayFor)
}
