package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/tunnel"
	"tunctl/tunnel/step"
)

// sharedRelay is the relay of package step on one node, over one route. It is started when
// first needed, for all who need it at that moment, and ends some time after its last
// channel. One that lost its way is resumed while it has users (resume.go). One that ended
// early is started again, but not in a loop.
type sharedRelay struct {
	relayOptions
	ctx    context.Context //nolint:containedctx // ends with the relay's owner
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	running  *runningRelay
	starting *relayStart
	lived    time.Duration // of one that ended by itself and was not replaced yet
	pause    pause
	held     held
}

// relayOptions are what a sharedRelay needs.
type relayOptions struct {
	start startFunc
	// otherWay starts a process on the same node over another route, to resume a relay; nil:
	// there is none.
	otherWay startFunc
	options  func() step.Options
	changed  func() <-chan struct{}    // closed at the next change of the link
	replaced func(lived time.Duration) // one that ended by itself was replaced; nil: nobody is told
	records  Records
	record   func(step.Ticket) Record
	told     func() // lastHeld has changed
	limits   *tunnel.Limits
	log      *slog.Logger
}

// startFunc starts a process on the node that runs [step.Command], and has join make a relay
// of it, or the way to one. Resumed says that no other relay can take the place of the one there.
type startFunc func(ctx context.Context, resumed bool, join joinFunc) (*tunnel.Stream, error)

// joinFunc closes the process if it fails.
type joinFunc func(ctx context.Context, process io.ReadWriteCloser) error

// runningRelay is a relay that was started.
type runningRelay struct {
	*step.Conn
	traffic *tunnel.RelayTraffic
	resumes bool
	began   time.Time

	// Guarded by the sharedRelay.
	since    time.Time // when its stream began; zero: that one was lost, and it is counted
	refCount int
	unused   time.Time   // when the last user left
	idle     *time.Timer // ends it some time after that
}

// relayStart is a start or a resumption under way.
type relayStart struct {
	done chan struct{} // closed at its end
	err  error
}

var errNodeClosed = errors.New("the connection to the node was closed")

func newSharedRelay(o relayOptions) *sharedRelay {
	r := &sharedRelay{relayOptions: o}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// ready starts the relay if need be, and returns what it found out.
func (r *sharedRelay) ready(ctx context.Context) (step.Info, error) {
	run, err := r.acquire(ctx)
	if err != nil {
		return step.Info{}, err
	}
	defer r.remove(run)
	return run.Info(), nil
}

const (
	// heldOpen is how long who wants something new of a relay waits while others are held there:
	// an editor opens new connections over the ssh that it has.
	heldOpen = 30 * time.Second
	// heldLook is how often it is looked whether the relay continues, besides when the link changes.
	heldLook = time.Second
)

// acquire returns the running relay, which the caller uses until it calls remove.
func (r *sharedRelay) acquire(ctx context.Context) (*runningRelay, error) {
	for began := time.Now(); ; {
		changed := r.changed()
		run, start, err := r.current()
		if run != nil {
			return run, nil
		}
		if err == nil {
			select {
			case <-start.done:
				err = start.err
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			continue
		case !r.holds() || time.Since(began) >= heldOpen:
			return nil, err
		}
		select {
		case <-changed:
		case <-time.After(heldLook):
		case <-ctx.Done():
		}
	}
}

// holds reports whether a relay with users waits for another way.
func (r *sharedRelay) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running != nil && r.running.resumes && r.running.refCount > 0 && r.ctx.Err() == nil
}

// current is the running relay, with the caller as a user, or the start to wait for.
func (r *sharedRelay) current() (*runningRelay, *relayStart, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.running; run != nil {
		switch err := run.check(); {
		case run.over():
			r.endedLocked(run)
		case errors.Is(err, tunnel.ErrReplaced):
			if !run.resumes {
				r.running = nil // its channels continue
			}
		case err != nil:
			return nil, nil, err
		default:
			run.refCount++
			run.idle.Stop()
			return run, nil, nil
		}
	}
	start, err := r.startLocked()
	return nil, start, err
}

// check says why nothing new is opened over the relay: its stream does not respond now, or
// the relay needs another one (tunnel.ErrReplaced).
func (r *runningRelay) check() error {
	if r.resumes && latest.IsClosed(r.Lost()) {
		return tunnel.ErrReplaced
	}
	return r.traffic.Stream().Check()
}

// startLocked starts a relay, or resumes the running one, unless that is under way.
func (r *sharedRelay) startLocked() (*relayStart, error) {
	switch {
	case r.ctx.Err() != nil:
		return nil, errNodeClosed
	case r.starting != nil:
	case time.Now().Before(r.pause.until):
		return nil, r.pause.err
	default:
		s, lost := &relayStart{done: make(chan struct{})}, r.running
		r.starting = s
		r.wg.Go(func() { r.begin(s, lost) })
	}
	return r.starting, nil
}

// begin starts a relay, or resumes one that lost its way. It does so for itself: the caller
// that needed it first may give up before others do.
func (r *sharedRelay) begin(s *relayStart, lost *runningRelay) {
	defer close(s.done)
	if lost != nil {
		s.err = r.resume(lost)
		return
	}
	run, err := r.takeOver()
	if run == nil && err == nil {
		if run, err = r.startNew(); err == nil && run.resumes {
			r.records.Add(r.record(run.Ticket()))
		}
	}
	r.mu.Lock()
	r.starting, s.err = nil, err
	var lived time.Duration
	switch {
	case err == nil && r.ctx.Err() != nil:
		s.err = errNodeClosed
	case err == nil:
		run.idle = time.AfterFunc(r.limits.StepIdle, func() { r.endUnused(run) })
		run.unused = time.Now() // whoever needed it may be gone
		r.running = run
		lived, r.lived = r.lived, 0
		r.wg.Go(func() { r.keep(run) })
	default:
		r.failedLocked(err)
	}
	r.mu.Unlock()
	if err == nil && s.err != nil {
		r.forget(run)
	}
	if lived > 0 && r.replaced != nil {
		r.replaced(lived)
	}
}

// startNew starts a relay.
func (r *sharedRelay) startNew() (*runningRelay, error) {
	var c *step.Conn
	o := r.options()
	stream, err := r.start(r.ctx, false, func(ctx context.Context, process io.ReadWriteCloser) (err error) {
		c, err = step.Start(ctx, process, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newRunning(c, stream, o.Resumable), nil
}

func newRunning(c *step.Conn, s *tunnel.Stream, resumes bool) *runningRelay {
	return &runningRelay{Conn: c, traffic: tunnel.NewRelayTraffic(s), resumes: resumes, began: time.Now(), since: time.Now()}
}

// takeOver continues the relay that another client of this job has left; nil: there is none.
func (r *sharedRelay) takeOver() (*runningRelay, error) {
	left, ok := r.records.Left(r.record(step.Ticket{}))
	if !ok {
		return nil, nil
	}
	var c *step.Conn
	stream, err := r.byAnyWay(r.ctx, func(ctx context.Context, process io.ReadWriteCloser) (err error) {
		c, err = step.TakeOver(ctx, process, left.Ticket, r.options())
		return err
	})
	if errors.Is(err, step.ErrGone) {
		r.records.Remove(left, false)
		return nil, nil
	}
	if err != nil {
		r.records.Remove(r.record(left.Ticket), true)
		return nil, fmt.Errorf("%w: %w", step.ErrLeft, err)
	}
	r.log.Info("took over the relay that was left on the node")
	return newRunning(c, stream, true), nil
}

// failedLocked takes in why no relay was started or resumed.
func (r *sharedRelay) failedLocked(err error) {
	if !errors.Is(err, api.ErrDown) && r.ctx.Err() == nil {
		r.pause.failed(err, r.limits)
	}
}

// endedLocked takes in that a relay has ended, and reports whether somebody was held there. After
// the first that ended early, the next one is started at once; after more, with pauses.
func (r *sharedRelay) endedLocked(run *runningRelay) (news bool) {
	if r.running != run {
		return false
	}
	r.running = nil
	lived, err := time.Since(run.began), run.Err()
	if run.refCount == 0 {
		news = r.held.end(0, nil)
	} else {
		news = r.held.end(0, err)
	}
	switch {
	case !run.resumes && run.traffic.Stream().Lost() != nil:
	case err == nil:
		r.pause = pause{}
	case lived >= r.limits.StableAfter:
		r.lived, r.pause = lived, pause{}
	default:
		r.lived = lived
		r.pause.endedEarly(err, r.limits)
	}
	r.log.Info("the relay on the node ended", "after", lived.Round(time.Second), "err", err)
	return news
}

// remove removes a user.
func (r *sharedRelay) remove(run *runningRelay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.refCount--; run.refCount == 0 && !run.over() {
		run.unused = time.Now()
		run.idle.Reset(r.limits.StepIdle)
	}
}

// neededLocked reports whether the relay has users, or cells run there without their page.
func (r *runningRelay) neededLocked() bool { return r.refCount > 0 || r.Cells().Running > 0 }

// endUnused ends a relay that had no user for long.
func (r *sharedRelay) endUnused(run *runningRelay) {
	r.mu.Lock()
	unused := !run.neededLocked() && time.Since(run.unused) >= r.limits.StepIdle
	if unused {
		r.endedLocked(run)
	} else if run.refCount == 0 {
		run.idle.Reset(r.limits.StepIdle)
	}
	r.mu.Unlock()
	if unused {
		_ = run.Close()
	}
}

// end ends the relay if nobody uses it. It is started again if it is needed.
func (r *sharedRelay) end() {
	r.mu.Lock()
	run := r.running
	unused := run != nil && !run.neededLocked()
	if unused {
		r.running = nil
	}
	r.mu.Unlock()
	if unused {
		_ = run.Close()
	}
}

// close ends the relay for good: its owner knows that the job has ended, or that nobody wants
// what runs there. Whoever was held gets to know if the job had ended before.
func (r *sharedRelay) close() {
	r.mu.Lock()
	if r.running != nil && !r.held.IsOver() && jobEnded(r.pause.err) {
		r.running.Fail(r.pause.err)
	}
	r.cancel()
	r.mu.Unlock()
	r.wg.Wait()
}

// use has open open a connection or a channel over the relay, and returns its traffic. A relay may
// turn out to have ended.
func (r *sharedRelay) use(ctx context.Context, open func(*runningRelay) error) (*tunnel.Traffic, error) {
	for again := true; ; again = false {
		run, err := r.acquire(ctx)
		if err != nil {
			return nil, err
		}
		traffic, err := run.traffic.Open(func() error { return open(run) }, sync.OnceFunc(func() { r.remove(run) }))
		if err == nil {
			return traffic, nil
		}
		r.remove(run)
		if !again || !run.over() {
			return nil, err
		}
	}
}

// openChannel opens a channel of the relay.
func (r *sharedRelay) openChannel(ctx context.Context, kind string, payload []byte) (ch ssh.Channel, requests <-chan *ssh.Request, err error) {
	traffic, err := r.use(ctx, func(run *runningRelay) (err error) {
		run.SetServer(r.options().Port) // it may have been found since the relay started
		ch, requests, err = run.OpenChannel(ctx, kind, payload)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return traffic.Channel(ch), requests, nil
}

// dialKernel connects a page to its kernel, or continues what is kept for it.
func (r *sharedRelay) dialKernel(ctx context.Context, network, address string, first []byte, k step.Kernel, verify func() error) (c *step.KernelConn, err error) {
	traffic, err := r.use(ctx, func(run *runningRelay) (err error) {
		run.SetServer(r.options().Port)
		if run.Keeps(k) {
			if err = verify(); err == nil {
				c, err = run.Continue(ctx, k)
			}
			if err == nil {
				return nil
			}
			if !errors.Is(err, step.ErrNotKept) {
				return fmt.Errorf("%w: %w", step.ErrKept, err) // a new connection would end that one
			}
		}
		c, err = run.DialKernel(ctx, network, address, first, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Conn = traffic.Conn(c.Conn)
	return c, nil
}

// dial connects through the relay.
func (r *sharedRelay) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return r.dialAndWrite(ctx, network, address, nil)
}

// dialAndWrite connects, and writes first to the connection.
func (r *sharedRelay) dialAndWrite(ctx context.Context, network, address string, first []byte) (c net.Conn, err error) {
	traffic, err := r.use(ctx, func(run *runningRelay) (err error) {
		c, err = run.Dial(ctx, network, address, first)
		return err
	})
	if err != nil {
		return nil, err
	}
	return traffic.Conn(c), nil
}

func (r *runningRelay) over() bool { return latest.IsClosed(r.Done()) }
