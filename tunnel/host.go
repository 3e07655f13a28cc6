package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// Host is a login node: the wish to be connected to it, and the connection.
type Host struct {
	pool *Pool
	name string
	log  *slog.Logger

	behind string // the login node that this compute node is behind; "": it is none

	kick chan struct{} // the wishes changed

	mu     sync.Mutex
	facts  facts
	view   api.Host
	used   sshconfig.Settings // those of the last try, which are the live connection's
	users  map[*Host]string   // the hosts that go through this one, or share the connection of that identity
	asked  bool               // Up or Want was called, and not Down since
	quiet  bool               // nobody is told of it: a compute node that nobody asked for by its name
	ended  *conn              // the connection that we are about to end, even if it is wanted again at once
	leases int                // see Lease
	idle   *time.Timer        // runs since the last lease ended
	cancel context.CancelFunc
	probe  bool // the network changed since the last look
	// outdated says that the live connection's settings are no longer what the config
	// says, rereadDue that this is to be looked at once the try under way is over.
	outdated, rereadDue bool
	// beyondNative is why only the ssh program can log in, as the server's methods told.
	beyondNative string
	nodeWay      nodeWay       // of the last node behind it
	socket       controlSocket // of the person's own connection, where it may be ridden
	changed      chan struct{}
}

func newHost(p *Pool, name string) *Host {
	return &Host{
		pool: p, name: name,
		log:     p.o.Log.With("host", api.HostLabel(name)),
		kick:    make(chan struct{}, 1),
		users:   map[*Host]string{},
		changed: make(chan struct{}),
		view:    api.Host{Alias: name, State: api.HostDown, IdentityFiles: []string{}, Via: []string{}},
	}
}

// label is the host's name as a person reads it.
func (h *Host) label() string { return api.HostLabel(h.name) }

// Up says that a person wants the host now: it is tried at once, and the person
// may be asked.
func (h *Host) Up() { h.UpFor("") }

// UpFor is Up for a person at a client, which gets the questions of the login.
func (h *Host) UpFor(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.quiet = true, false
	h.attendLocked(client)
}

// attendLocked clears what keeps the host from a try that a person waits for.
func (h *Host) attendLocked(client string) {
	f := &h.facts
	f.wanted, f.client = true, client
	f.attended = time.Now().Add(h.pool.o.Limits.Attended)
	f.stop, f.failure, f.failures, f.nextTry = nil, nil, 0, time.Time{}
	h.enterLocked()
	h.kicked()
}

// Want says that the host is wanted though nobody may be there: it is logged in to
// only where that needs no person, else its state is needs-login.
func (h *Host) Want() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.quiet = true, false
	h.facts.wanted = true
	h.enterLocked()
	h.kicked()
}

// Down disconnects, also from the compute nodes behind the host. It returns the other
// hosts that still use the connection, which then stays up until they are down too.
func (h *Host) Down() (usedBy []string) {
	for _, user := range h.usersNow() {
		if user.behind == h.name {
			user.Down()
		}
		if !user.wanted() {
			h.giveBack(user) // as its own goroutine is about to do
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = false
	h.unwantLocked()
	if !h.facts.wanted {
		h.ended = h.facts.live
		return nil
	}
	for user := range h.users {
		usedBy = append(usedBy, user.name)
	}
	slices.Sort(usedBy)
	return usedBy
}

// usersNow are the hosts that go through this one, or share its connection.
func (h *Host) usersNow() []*Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.users))
}

func (h *Host) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts.wanted
}

// unwantLocked ends the wish, the try under way and the connection, unless another
// host still goes through this one.
func (h *Host) unwantLocked() {
	if h.asked || len(h.users) > 0 {
		return
	}
	h.endWishLocked()
}

// unusedLocked is unwantLocked for a host that another has ended its use of: those who
// hold a lease still need it.
func (h *Host) unusedLocked() {
	if h.leases == 0 {
		h.unwantLocked()
	}
}

// endWishLocked is unwantLocked whoever uses the host.
func (h *Host) endWishLocked() {
	f := &h.facts
	f.wanted = false
	f.stop, f.failure, f.failures, f.nextTry, f.attended = nil, nil, 0, time.Time{}, time.Time{}
	if h.cancel != nil {
		h.cancel()
	}
	h.enterLocked()
	h.kicked()
}

// kicked wakes the host's goroutine.
func (h *Host) kicked() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

func (h *Host) networkChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probe = h.facts.live != nil
	h.facts.failures, h.facts.nextTry = 0, time.Time{}
	h.enterLocked()
	h.kicked()
}

// Status is how the host is now.
func (h *Host) Status() api.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view
}

// Changed is closed at the next change of the host's status.
func (h *Host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// triesBeforeUnreachable is how many failed tries a waiting person sits through.
const triesBeforeUnreachable = 2

// Await returns nil once the host is connected. It returns an *api.Error when only
// a person can change that, or, while a person waits, after the first failed
// tries; for other passing failures it waits until ctx ends.
func (h *Host) Await(ctx context.Context) error {
	return h.await(ctx, nil, func(f *facts) *api.Error {
		if f.failures >= triesBeforeUnreachable && time.Now().Before(f.attended) {
			return f.failure
		}
		return nil
	})
}

// await returns when the host is connected or settled, or when impatient, asked
// between tries, has an error of its own. A user, if any, waits only as long as it
// is one.
func (h *Host) await(ctx context.Context, user *Host, impatient func(*facts) *api.Error) error {
	if user != nil {
		defer user.setAsking("")
	}
	for {
		h.mu.Lock()
		f, ended, changed := h.facts, h.ended, h.changed
		_, uses := h.users[user]
		h.mu.Unlock()
		if user != nil && !uses {
			return errLeadsElsewhere
		}
		if user != nil {
			user.setAsking(f.asking)
		}
		if f.live != nil && f.live != ended {
			return nil
		}
		if f.trying == "" {
			if !f.wanted {
				return &api.Error{Code: api.CodeUnreachable, Message: h.label() + " is not connected", Err: classPassing.of(api.ErrDown)}
			}
			if f.stop != nil {
				return f.stop.why
			}
			if err := impatient(&f); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return h.gaveUp(ctx.Err())
		}
	}
}

// gaveUp is the error of a wait that ended before the host was settled.
func (h *Host) gaveUp(cause error) *api.Error {
	s := h.Status()
	why := cmp.Or(s.Cause, string(s.State))
	e := &api.Error{Code: api.CodeTimeout, Message: fmt.Sprintf("%s is not connected yet: %s", h.label(), why), Hint: s.Hint, Err: cause}
	if errors.Is(cause, context.Canceled) {
		e.Code = api.CodeFailed
	}
	return e
}

// current is the live connection, or api.ErrDown with the reason.
func (h *Host) current() (*conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts.live != nil {
		return h.facts.live, nil
	}
	if h.view.Cause != "" {
		return nil, fmt.Errorf("%s: %w: %s", h.label(), api.ErrDown, h.view.Cause)
	}
	return nil, fmt.Errorf("%s: %w", h.label(), api.ErrDown)
}
