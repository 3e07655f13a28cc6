package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/step"
)

// sharedRelay is the relay of package step on one node, over one way. It is started when
// first needed, for all who need it at that moment, and ends some time after its last
// channel. One that ended early is started again, but not in a loop.
type sharedRelay struct {
	start    func(ctx context.Context) (*runningRelay, error)
	replaced func(lived time.Duration) // one that ended by itself was replaced
	server   func() int                // the port of the job's server; 0: not known
	limits   *Limits
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // ends with the relay's owner
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	running  *runningRelay
	old      map[*runningRelay]bool // over connections that were replaced
	starting *relayStart
	lived    time.Duration // of one that ended by itself and was not replaced yet
	pause    pause
	final    error // the job has ended, or the node has no Python: no more are started
}

// runningRelay is a relay that was started.
type runningRelay struct {
	*step.Conn
	users
	link  *conn // that it runs over
	began time.Time
}

// relayStart is a start under way.
type relayStart struct {
	done chan struct{} // closed at its end
	err  error
}

var errNodeClosed = errors.New("the connection to the node was closed")

func newSharedRelay(limits *Limits, log *slog.Logger, server func() int, start func(context.Context) (*runningRelay, error)) *sharedRelay {
	r := &sharedRelay{old: map[*runningRelay]bool{}, start: start, replaced: func(time.Duration) {}, server: server, limits: limits, log: log}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// acquire returns the running relay, which the caller uses until it calls remove.
func (r *sharedRelay) acquire(ctx context.Context) (*runningRelay, error) {
	for {
		run, start, err := r.current()
		if run != nil || err != nil {
			return run, err
		}
		select {
		case <-start.done:
			if start.err != nil {
				return nil, start.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// current is the running relay, with the caller as a user, or the start to wait for.
func (r *sharedRelay) current() (*runningRelay, *relayStart, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.running; run != nil {
		switch {
		case run.over():
			r.endedLocked(run)
		case run.link.worst() == standingAside:
			return nil, nil, errAside
		case run.link.worst() == standingReplaced:
			r.old[run], r.running = true, nil // its channels continue
		case run.add():
			return run, nil, nil
		default:
			r.endedLocked(run) // unused for too long
		}
	}
	switch {
	case r.closed:
		return nil, nil, errNodeClosed
	case r.final != nil:
		return nil, nil, r.final
	case r.starting != nil:
	case time.Now().Before(r.pause.until):
		return nil, nil, r.pause.err
	default:
		s := &relayStart{done: make(chan struct{})}
		r.starting = s
		r.wg.Go(func() { r.begin(s) })
	}
	return nil, r.starting, nil
}

// begin starts a relay. It does so for itself: the caller that needed it first may give
// up before others do.
func (r *sharedRelay) begin(s *relayStart) {
	run, err := r.start(r.ctx)
	r.mu.Lock()
	r.starting, s.err = nil, err
	var lived time.Duration
	switch {
	case err == nil && r.closed:
		s.err = errNodeClosed
	case err == nil:
		run.users = users{after: r.limits.StepIdle, end: func() { _ = run.Close() }}
		run.idle() // whoever needed it may be gone
		r.running = run
		lived, r.lived = r.lived, 0
		r.wg.Go(func() {
			<-run.Done()
			r.mu.Lock()
			r.endedLocked(run)
			r.mu.Unlock()
			run.leave()
			_ = run.Close()
		})
	case jobEnded(err) || errors.Is(err, errNoPython):
		r.final = err
	case !errors.Is(err, api.ErrDown) && r.ctx.Err() == nil:
		r.pause.failed(err, r.limits)
	}
	r.mu.Unlock()
	if err == nil && s.err != nil {
		_ = run.Close()
	}
	close(s.done)
	if lived > 0 {
		r.replaced(lived)
	}
}

// endedLocked takes in that a relay has ended. After the first that ended early, the next
// one is started at once; after more, with pauses.
func (r *sharedRelay) endedLocked(run *runningRelay) {
	delete(r.old, run)
	if r.running != run {
		return
	}
	r.running = nil
	lived, err := time.Since(run.began), run.Err()
	switch {
	case run.link.ended():
	case err == nil:
		r.pause = pause{}
	case lived >= r.limits.StableAfter:
		r.lived, r.pause = lived, pause{}
	default:
		r.lived = lived
		r.pause.failed(err, r.limits)
		if r.pause.failures == 1 {
			r.pause.until = time.Time{}
		}
	}
	r.log.Info("the relay on the node ended", "after", lived.Round(time.Second), "err", err)
}

// end ends the relay, which is started again if it is needed.
func (r *sharedRelay) end() {
	r.mu.Lock()
	all := maps.Clone(r.old)
	if r.running != nil {
		all[r.running] = true
	}
	r.running = nil
	clear(r.old)
	r.mu.Unlock()
	for run := range all {
		run.leave()
		_ = run.Close()
	}
}

// close ends the relay for good.
func (r *sharedRelay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.end()
	r.wg.Wait()
}

// openChannel opens a channel of the relay. A relay may turn out to have ended.
func (r *sharedRelay) openChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	for again := true; ; again = false {
		run, err := r.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		wait := &channelWait{all: &run.link.clients}
		wait.sent()
		run.SetServer(r.server()) // it may have been found since the relay started
		ch, requests, err := run.OpenChannel(ctx, kind, payload)
		wait.answered()
		if err == nil {
			wait.opened()
			paced := &clientChannel{Channel: ch, wait: wait, in: flow{pacer: run.link.in}, out: flow{pacer: run.link.out}}
			return &sharedSession{Channel: paced, release: sync.OnceFunc(run.remove)}, requests, nil
		}
		run.remove()
		if !again || !run.over() {
			return nil, nil, err
		}
	}
}

// dial connects through the relay.
func (r *sharedRelay) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for again := true; ; again = false {
		run, err := r.acquire(ctx)
		if err != nil {
			return nil, err
		}
		wait := &channelWait{all: &run.link.clients}
		wait.sent()
		c, err := run.Dial(ctx, network, address)
		wait.answered()
		if err == nil {
			wait.opened()
			paced := &channelConn{Conn: c, link: run.link, wait: wait}
			paced.in.pacer, paced.out.pacer = run.link.in, run.link.out
			return &relayedConn{channelConn: paced, release: sync.OnceFunc(run.remove)}, nil
		}
		run.remove()
		if !again || !run.over() {
			return nil, err
		}
	}
}

func (r *runningRelay) over() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// relayedConn is a user of its relay until Close.
type relayedConn struct {
	*channelConn
	release func()
}

// Close implements net.Conn.
func (c *relayedConn) Close() error {
	defer c.release()
	return c.channelConn.Close()
}

// users counts the users of something, and ends it some time after the last one.
type users struct {
	after time.Duration
	end   func()

	mu    sync.Mutex
	count int
	timer *time.Timer
	ended bool
}

// add adds a user. It reports false if the end has come.
func (u *users) add() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return false
	}
	if u.timer != nil {
		u.timer.Stop()
	}
	u.count++
	return true
}

// remove removes a user.
func (u *users) remove() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count--; u.count == 0 && !u.ended {
		u.idleLocked()
	}
}

// idle starts without a user.
func (u *users) idle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.idleLocked()
}

func (u *users) idleLocked() {
	var t *time.Timer
	t = time.AfterFunc(u.after, func() {
		u.mu.Lock()
		over := u.count == 0 && u.timer == t && !u.ended
		u.ended = u.ended || over
		u.mu.Unlock()
		if over {
			u.end()
		}
	})
	u.timer = t
}

// leave ends the counting: it has ended otherwise.
func (u *users) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	if u.timer != nil {
		u.timer.Stop()
	}
}

// pause is the wait after failures in a row.
type pause struct {
	failures int
	err      error // of the last one
	until    time.Time
}

func (p *pause) failed(err error, l *Limits) {
	p.failures++
	p.err, p.until = err, time.Now().Add(backoff(p.failures, l.RetryMin, l.RetryMax))
}
