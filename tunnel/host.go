package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/internal/lists"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/hostkey"
)

// Host is a login node: whether it is wanted, and its connection.
type Host struct {
	pool   *Pool
	behind string        // the login node before this compute node; "": this is no compute node
	woken  chan struct{} // receives after wake: what decides about the next action changed

	// sshOnlyWhy is why only the ssh program can log in, learnt from the server's methods.
	// Only the host's tries use it, one at a time.
	sshOnlyWhy string

	mu sync.Mutex
	hostState
	nodes      map[string]*Hop // those that streams go to
	cancel     context.CancelFunc
	handshake  *handshake // that is under way; nil: none
	recheckDue bool       // compare the settings once the try under way has ended
}

// newHost makes a host; behind is the login node before a compute node, or "".
func newHost(p *Pool, name, behind string) *Host {
	h := &Host{pool: p, behind: behind, woken: make(chan struct{}, 1), nodes: map[string]*Hop{}}
	h.hostState = hostState{
		name: name, log: p.o.Log.With("host", api.HostLabel(name)), limits: &p.o.Limits, publish: p.enqueue,
		conns:   connections{aside: map[*conn]bool{}},
		changed: make(chan struct{}),
		view:    api.Host{Alias: name, State: api.HostDown, IdentityFiles: []string{}, Via: []string{}},
	}
	if behind != "" {
		h.publish = func(api.Host) {}
	}
	return h
}

// Up says that the user wants the host now. It is tried at once, and may ask questions.
func (h *Host) Up() { h.UpFor("") }

// UpFor is Up for the user at a client, which receives the questions of the login.
func (h *Host) UpFor(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.asked = true
	h.attendLocked(client)
}

// attendLocked clears everything that delays a try, because the user waits for one.
func (h *Host) attendLocked(client string) {
	f := &h.facts
	f.wanted, f.client, f.failure = true, client, nil
	f.tries.Attend(time.Now())
	if f.live != nil && !h.view.NotRespondingSince.IsZero() {
		latest.Signal(f.live.network) // whether it will respond is decided sooner
	}
	h.handshake.shortenBanner(h.pool.o.Limits.BannerTimeout)
	h.enterLocked()
	h.wake()
}

// Want says that the host is wanted though no user may be present: it is logged in to
// only if that needs nobody; otherwise its state is needs-login.
func (h *Host) Want() {
	h.change(func(f *facts) { f.asked, f.wanted = true, true })
	h.wake()
}

// change changes facts, and enters the state that follows.
func (h *Host) change(apply func(*facts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	apply(&h.facts)
	h.enterLocked()
}

// Down disconnects the host, with the compute nodes behind it. It returns the other hosts
// that still use the connection, which stays up until they are down too.
func (h *Host) Down() (usedBy []string) {
	for _, user := range h.pool.sharing.usersOf(h) {
		if !user.wanted() {
			h.removeUser(user) // its own goroutine is about to do so
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.asked = false
	h.unwantLocked()
	if !h.facts.wanted {
		return nil
	}
	return lists.Map(h.pool.sharing.usersOf(h), func(user *Host) string { return user.name })
}

func (h *Host) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts.wanted
}

// unwantLocked ends the try under way and the connections, unless somebody asked for the
// host or another host uses it. Who wants the host from now on wants a new connection.
func (h *Host) unwantLocked() {
	if h.facts.asked || len(h.pool.sharing.usersOf(h)) > 0 {
		return
	}
	f := &h.facts
	if f.live != nil && f.live.owner == h {
		h.conns.aside[f.live] = true
	}
	for c := range h.conns.aside {
		c.spawn(func() { c.end(nil) }) // its keepalive does the rest
	}
	clear(h.conns.aside)
	f.wanted, f.live, f.failure = false, nil, nil
	f.tries.Drop()
	if h.cancel != nil {
		h.cancel()
	}
	h.enterLocked()
	h.wake()
}

// wake wakes the host's goroutine.
func (h *Host) wake() { latest.Signal(h.woken) }

func (h *Host) networkChanged() {
	h.mu.Lock()
	handshake, all := h.handshake, maps.Clone(h.conns.aside)
	if live := h.facts.live; live != nil && live.owner == h {
		all[live] = true
	}
	h.mu.Unlock()
	if handshake != nil && !handshake.wire.hasAddress(h.pool.network.HasAddress) {
		handshake.moved.Store(true)
		_ = handshake.wire.Close()
	}
	for c := range all {
		all[c] = c.hasAddress()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.tries.ForgetUnreached()
	for c, here := range all {
		if here && c.away { // it may respond, and save a login
			h.facts.tries.Delay(time.Now().Add(h.pool.o.Limits.ProbeTimeout))
		}
		c.away = !here
		latest.Signal(c.network)
	}
	h.handshake.shortenBanner(h.pool.o.Limits.BannerTimeout)
	h.enterLocked()
	h.wake()
}

// recheckSettings compares the settings in use with the current ones.
func (h *Host) recheckSettings(ctx context.Context) {
	h.mu.Lock()
	concerned := h.facts.wanted || h.facts.live != nil
	h.mu.Unlock()
	if !concerned {
		return
	}
	now, err := h.pool.Settings(ctx, h.name)
	identity := ""
	if err == nil {
		identity, err = h.pool.identity(ctx, &now, h.name)
	}
	if err != nil {
		h.log.Debug("the settings cannot be read after a reload", "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	same := now.SameDial(h.used)
	switch {
	case f.trying != "":
		h.recheckDue = true // after the try
		return
	case f.live != nil:
		h.outdated = !same
	case !same:
		f.tries.ForgetFailures()
		if stop := f.tries.Stop; stop != nil && (stop.Why.Code == api.CodeConfig || identity != h.identity) {
			f.tries.Stop = nil // it was about other settings
		}
		if identity != h.identity {
			f.tries.ForgetLogins()
		}
		h.wake()
	}
	h.enterLocked()
}

// Status is the host's current state.
func (h *Host) Status() api.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statusLocked()
}

// Changed is closed at the next change of the host's status.
func (h *Host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// triesBeforeUnreachable is how many failed tries Await bears while the user waits.
const triesBeforeUnreachable = 2

// Await returns nil once the host is connected. It returns an *api.Error when only a
// user can change that or, while the user waits, after the first failed tries. Other
// temporary failures do not end it: it waits until ctx ends.
func (h *Host) Await(ctx context.Context) error { return h.await(ctx, nil) }

// await is Await for another host that uses this one, if user is set. It then ends with the first
// failed try, and once that host no longer uses this one.
func (h *Host) await(ctx context.Context, user *Host) error {
	if user != nil {
		defer user.setAsking("", nil)
	}
	for {
		h.mu.Lock()
		f, changed := h.facts, h.changed
		uses := user == nil || slices.Contains(h.pool.sharing.usersOf(h), user)
		h.mu.Unlock()
		if !uses {
			return errIdentityChanged
		}
		if user != nil {
			user.setAsking(f.asking, f.links)
		}
		if f.live != nil {
			return nil
		}
		if f.trying == "" {
			if !f.wanted {
				return failure.Passing.Errorf(api.CodeUnreachable, api.ErrDown, "%s is not connected", h.label())
			}
			if f.tries.Stop != nil {
				return f.tries.Stop.Why
			}
			impatient := user != nil && f.tries.Failures > 0
			impatient = impatient || f.tries.Failures >= triesBeforeUnreachable && f.tries.IsAttended(time.Now())
			if impatient && f.failure != nil {
				return f.failure
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return awaitError(h.Status(), ctx.Err())
		}
	}
}

// awaitError is the error of a wait that ended before the host was connected or stopped.
func awaitError(s api.Host, cause error) *api.Error {
	why := cmp.Or(s.Cause, string(s.State))
	e := api.Errorf(api.CodeTimeout, "%s is not connected yet: %s", api.HostLabel(s.Alias), why).Because(cause).
		WithHint("%s", s.Hint)
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

// onConnection has use use the live connection. Its errors name the host.
func onConnection[T any](h *Host, use func(*conn) (T, error)) (result T, err error) {
	c, err := h.current()
	if err != nil {
		return result, err
	}
	used, err := use(c)
	if err != nil {
		return result, fmt.Errorf("%s: %w", h.label(), err)
	}
	return used, nil
}

// Dial connects to an address as the host sees it; network is "tcp", or "unix" for a
// socket there. The connection has CloseWrite and no deadlines. Errors wrap api.ErrDown,
// api.ErrRefused or api.ErrProhibited where one applies.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return onConnection(h, func(c *conn) (net.Conn, error) { return c.dial(ctx, network, address) })
}

// Listen makes the host listen at an address. The listener ends with the connection.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return onConnection(h, func(c *conn) (net.Listener, error) { return c.listen(ctx, network, address) })
}

// OpenChannel opens a channel of any kind (RFC 4254, section 5.1) on the live
// connection, for the user's shell or copy that shares it. A "session" waits for one of
// the sessions that the host allows. The caller closes the channel and reads its
// requests. An *ssh.OpenChannelError is the host's own refusal.
func (h *Host) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	o, err := onConnection(h, func(c *conn) (opened, error) { return c.openChannel(ctx, kind, payload) })
	return o.Channel, o.requests, err
}

// Run runs a command on the host and waits for its end. When ctx ends it closes the
// channel, which is the only way to end a command that every server has. It waits for
// one of the sessions that the host allows. A command that failed is no error.
func (h *Host) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	return onConnection(h, func(c *conn) (Result, error) { return c.run(ctx, command, stdin) })
}

// RunAs is Run, but fails if the connection is to another account.
func (h *Host) RunAs(ctx context.Context, account, command string, stdin []byte) (Result, error) {
	return onConnection(h, func(c *conn) (Result, error) {
		if c.identity != account {
			return Result{}, fmt.Errorf("%w: %s, not %s", ErrOtherAccount, c.identity, account)
		}
		return c.run(ctx, command, stdin)
	})
}

// Node is the hop to a node, or to user@node, for one stream until release is called. Streams share
// it, and its connection ends some time after the last of them (Limits.NodeIdle).
func (h *Host) Node(name string) (n *Hop, release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = h.nodes[name]
	if n == nil {
		user, node, named := strings.Cut(name, "@")
		if !named {
			user, node = "", name
		}
		n = newHop(h, []string{node})
		n.user, n.idle = user, time.AfterFunc(0, n.closeUnused)
		h.nodes[name] = n
	}
	n.streams++
	n.idle.Stop()
	return n, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		n.streams--
		n.idle.Reset(h.pool.o.Limits.NodeIdle)
	})
}

// Link is the way through the host, whatever its connection is at the moment.
func (h *Host) Link() Link { return Link{h} }

// Account is user@address of the live connection, or of the last try, and the way there;
// "" before the first.
func (h *Host) Account() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.identity
}

// TryKey logs in once more with one key alone, over a connection of its own, and returns what the
// host asks for besides it. If that is nothing, the next login needs no user.
func (h *Host) TryKey(ctx context.Context, key ssh.Signer) (besides []string, err error) {
	return onConnection(h, func(c *conn) ([]string, error) {
		t := newAttempt(h)
		t.settings, t.identity = c.settings, c.identity
		besides, err := t.tryKey(ctx, key)
		if err == nil && len(besides) == 0 {
			h.pool.o.Memory.Remember(h.name, func(k *api.Known) { k.Silent = true })
		}
		return besides, err
	})
}

func (t *attempt) tryKey(ctx context.Context, key ssh.Signer) (besides []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.pool.o.Limits.DialTimeout+t.pool.o.Limits.HandshakeTimeout)
	defer cancel()
	keys, err := hostkey.Load(t.hostKeyOptions(&asker{host: t.host}))
	if err != nil {
		return nil, err
	}
	raw, _, err := t.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	accepted, offered := false, false
	config := t.config(ctx, keys, nil)
	config.BannerCallback = nil
	config.HostKeyCallback = func(_ string, remote net.Addr, key ssh.PublicKey) error { return keys.Check(ctx, remote, key) }
	config.AuthCallback = func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
		if accepted = slices.Contains(c.PartialSuccessMethods, methodKey); accepted {
			besides = c.AllowedMethods
		}
		if offered || !slices.Contains(c.AllowedMethods, methodKey) {
			return nil, nil //nolint:nilnil // no other method is tried
		}
		offered = true
		return ssh.PublicKeys(key), nil
	}
	sc, _, _, err := ssh.NewClientConn(raw, t.settings.Address(), config)
	if err == nil {
		return nil, sc.Close()
	}
	if accepted {
		return besides, nil
	}
	return nil, api.RemoteError(err)
}
