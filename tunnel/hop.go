package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/hostkey"
	"tunctl/tunnel/sshconfig"
)

// Hop is our own SSH connection to a node, through the host's. It is made when first
// needed and ends with the host's, so it needs no keepalive.
type Hop struct {
	login *Host
	user  string // "": that of the login to the host
	names []string
	host  *Host // represents the node; not in the pool, never published
	conn  atomic.Pointer[conn]

	lock    ctxtime.Mutex // held while conn changes, and for what follows
	old     []*conn       // replaced, with open channels
	refused failure.Refusals

	failed atomic.Bool // the last login did not work

	// Of [Host.Node], guarded by the host.
	streams int
	idle    *time.Timer // runs since the last of them ended
}

func newHop(login *Host, names []string) *Hop {
	h := newHost(login.pool, login.name+","+names[0], login.name)
	return &Hop{login: login, names: names, host: h, lock: ctxtime.NewMutex()}
}

func (n *Hop) closeUnused() {
	_ = n.lock.Lock(context.Background())
	defer n.lock.Unlock() // a stream that comes now gets another connection
	n.login.mu.Lock()
	unused := n.streams == 0
	n.login.mu.Unlock()
	if unused {
		n.closeLocked()
	}
}

// Await connects to the node. A user who asks for it now need not wait because of earlier refusals.
func (n *Hop) Await(ctx context.Context, attended bool) error {
	if attended {
		if err := n.lock.Lock(ctx); err != nil {
			return err
		}
		n.refused = failure.Refusals{}
		n.lock.Unlock()
	}
	_, err := n.connection(ctx)
	if route, ok := errors.AsType[*failure.RouteError](err); ok {
		return route.Err // there is no other to compare it with
	}
	return err
}

// ErrTargetSilent means that the node was reached, but the target does not respond.
var ErrTargetSilent = errors.New("the node was reached, but nothing responded there")

// Dial connects to an address as the node sees it. Its errors are those of [Host.Dial], or a
// *failure.RouteError; after one that the site may count, logins are rare ([failure.Refusals]).
func (n *Hop) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for again := true; ; again = false {
		c, err := n.connection(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		nc, err := c.dial(ctx, network, address)
		switch {
		case err == nil || errors.Is(err, api.ErrRefused):
			return nc, err
		case errors.Is(err, api.ErrDown) && again:
			continue // it ended together with the host's connection or the job
		case errors.Is(err, context.DeadlineExceeded) && c.parent.wire.lastHeard().After(began):
			_ = c.wire.Close() // the node may have died; the next dial finds out
			return nil, fmt.Errorf("%w: %w", ErrTargetSilent, err)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		return nil, n.Failure(err)
	}
}

// Failure is the *failure.RouteError of the hop with a cause.
func (n *Hop) Failure(err error) error {
	return &failure.RouteError{Route: "a direct SSH login", Err: err}
}

// Start starts a command on the node that carries a connection; see [Link.Start].
func (n *Hop) Start(ctx context.Context, command, line string) (*Stream, error) {
	c, err := n.connection(ctx)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, command, line)
}

// OpenChannel opens a channel of the node's sshd.
func (n *Hop) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c, err := n.connection(ctx)
	if err != nil {
		return nil, nil, err
	}
	o, err := c.openChannel(ctx, kind, payload)
	return o.Channel, o.requests, err
}

// connection is the live one, or a new one.
func (n *Hop) connection(ctx context.Context) (*conn, error) {
	if err := n.lock.Lock(ctx); err != nil {
		return nil, err
	}
	defer n.lock.Unlock()
	if c := n.conn.Load(); c != nil {
		switch {
		case c.ended():
			c.close(nil)
		case c.worst() == standingUsed:
			return c, nil
		case c.worst() == standingAside:
			return nil, errAside
		default:
			c.replace() // its channels continue
			n.old = append(slices.DeleteFunc(n.old, (*conn).ended), c)
		}
		n.conn.Store(nil)
	}
	if err := n.refused.Err(); err != nil {
		return nil, err
	}
	c, err := n.connect(ctx)
	n.failed.Store(failure.IsRoute(err))
	n.refused.Note(err)
	if err != nil {
		return nil, err
	}
	n.conn.Store(c)
	// sshd turns off Nagle's algorithm only once a session was opened.
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstCommandTimeout)
		defer cancel()
		_, _ = c.run(ctx, "true", nil)
	})
	return c, nil
}

// IsLive reports whether there is a connection to the node now.
func (n *Hop) IsLive() bool {
	c := n.conn.Load()
	return c != nil && !c.ended() && c.worst() == standingUsed
}

// MayWork reports whether a login was not tried yet, or worked.
func (n *Hop) MayWork() bool { return !n.failed.Load() }

// Close ends the connection, with all that goes through it.
func (n *Hop) Close() {
	_ = n.lock.Lock(context.Background())
	defer n.lock.Unlock()
	n.closeLocked()
}

func (n *Hop) closeLocked() {
	if c := n.conn.Swap(nil); c != nil {
		n.old = append(n.old, c)
	}
	for _, c := range n.old {
		c.close(nil)
	}
	n.old = nil
}

// connect logs in to the node with the user's keys. It asks nobody.
func (n *Hop) connect(ctx context.Context) (*conn, error) {
	t := newAttempt(n.host)
	preparing, done := context.WithTimeout(ctx, 2*n.login.pool.o.Limits.NodeDial)
	known, err := n.settings(preparing, &t.settings)
	done()
	defer func() { _ = os.Remove(known) }()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, n.Failure(err)
	}
	raw, err := n.dialFirst(ctx, &t.settings)
	if err != nil {
		return nil, err
	}
	through := raw.link
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := open(during, through, func() (*conn, error) { return t.handshake(during, raw) }, func(c *conn) { c.close(nil) })
	if err == nil {
		return c, nil
	}
	if _, lost := open(ctx, through, through.roundTrip, func(time.Duration) {}); lost != nil {
		return nil, lost // what the node would have said is not known
	}
	return nil, n.Failure(t.classOf(err).Wrap(err))
}

// settings are the user's for the node, with the user and the keys of the login to the
// host. The returned file has the node's host keys as the cluster knows them; the caller
// removes it.
func (n *Hop) settings(ctx context.Context, s *sshconfig.Settings) (known string, err error) {
	login, err := n.login.current()
	if err != nil {
		return "", err
	}
	own := login.settings
	if *s, err = n.login.pool.Settings(ctx, n.names[0]); err != nil {
		return "", err
	}
	s.User = cmp.Or(n.user, own.User)
	s.ProxyJump, s.ProxyCommand = nil, ""
	s.IdentityFiles = union(own.IdentityFiles, s.IdentityFiles)
	s.CertificateFiles = union(own.CertificateFiles, s.CertificateFiles)
	s.IdentitiesOnly = s.IdentitiesOnly || own.IdentitiesOnly
	s.OwnIdentities = false // no warning for a missing key file
	s.PasswordAuthentication, s.KbdInteractive = false, false
	s.IdentityAgent = cmp.Or(s.IdentityAgent, own.IdentityAgent)
	known = n.clusterKeys(ctx)
	s.GlobalKnownHosts = slices.Concat(union(s.UserKnownHosts, own.UserKnownHosts), s.GlobalKnownHosts, []string{known})
	s.UserKnownHosts = nil
	// A key that neither the user nor the cluster knows is accepted and not saved: nodes
	// are reinstalled often. The connection starts at a host whose key was checked, sends
	// no password, and trusts the cluster's network no more than plain HTTP to the node
	// does, which is the usual case.
	if s.StrictHostKeyChecking != "yes" {
		s.StrictHostKeyChecking = "accept-new"
	}
	return known, nil
}

// union is a, and what only b has.
func union(a, b []string) []string {
	return append(slices.Clone(a), slices.DeleteFunc(slices.Clone(b), func(x string) bool { return slices.Contains(a, x) })...)
}

// clusterKeys writes to a file what ssh on the host knows about the node's key, if it tells.
func (n *Hop) clusterKeys(ctx context.Context) string {
	names := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return !posixsh.IsWord(name) })
	r, _ := n.login.Run(ctx, "exec sh -c 'for n in "+strings.Join(names, " ")+
		"; do for f in ~/.ssh/known_hosts /etc/ssh/ssh_known_hosts; do ssh-keygen -F $n -f $f 2>/dev/null; done; done'", nil)
	file, err := hostkey.WriteTemp(r.Stdout)
	if err != nil {
		n.host.log.Debug("what the cluster knows of the node is not used", "err", err)
	}
	return file
}

// nextNameAfter is how long to wait for one name of a node before dialling the next as
// well.
const nextNameAfter = 500 * time.Millisecond

// dialFirst connects to the node's SSH port by the first of its names that works. The
// dials overlap: a firewall that drops packets must not use up the time of the other
// routes.
func (n *Hop) dialFirst(ctx context.Context, s *sshconfig.Settings) (*channelConn, error) {
	names := union([]string{s.Hostname}, n.names)
	type answer struct {
		raw *channelConn
		err error
	}
	answers := make(chan answer)
	dialing, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	dial := func(name string) {
		raw, err := n.dialName(dialing, net.JoinHostPort(name, strconv.Itoa(s.Port)))
		select {
		case answers <- answer{raw, err}:
		case <-dialing.Done():
			if err == nil {
				_ = raw.Close() // another name was faster
			}
		}
	}
	var first error
	for next, open := 0, 0; ; {
		var soon <-chan time.Time
		if next < len(names) {
			name := names[next]
			wg.Go(func() { dial(name) })
			next, open = next+1, open+1
			soon = time.After(nextNameAfter)
		}
		select {
		case <-soon:
			continue
		case a := <-answers:
			open--
			switch {
			case a.err == nil:
				return a.raw, nil
			case ctx.Err() != nil || errors.Is(a.err, api.ErrDown):
				return nil, a.err
			case errors.Is(a.err, api.ErrProhibited):
				return nil, n.Failure(failure.Permanent.Wrap(a.err))
			}
			first = cmp.Or(first, a.err)
			if open == 0 && next == len(names) {
				return nil, n.Failure(failure.Passing.Wrap(first))
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// dialName connects to one address.
func (n *Hop) dialName(ctx context.Context, address string) (*channelConn, error) {
	limit := n.login.pool.o.Limits.NodeDial
	dialing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := onConnection(n.login, func(c *conn) (*channelConn, error) { return c.dialHop(dialing, "tcp", address) })
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s", address, api.DurationText(limit))
	}
	return raw, err
}

// Link is what package node needs of a host, to get onto a compute node behind it.
type Link struct{ host *Host }

// Label is the host's name in messages.
func (l Link) Label() string { return l.host.label() }

// Limits are those of the host's pool.
func (l Link) Limits() *Limits { return &l.host.pool.o.Limits }

// Log is the host's log.
func (l Link) Log() *slog.Logger { return l.host.log }

// Changed is closed at the next change of the host's state: its connection may be another.
func (l Link) Changed() <-chan struct{} { return l.host.Changed() }

// Start starts a command on the host that carries a connection, and sends it its first
// line. Its error is a *failure.RouteError if the host carries no streams.
func (l Link) Start(ctx context.Context, command, line string) (*Stream, error) {
	c, err := l.host.current()
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, command, line)
}

// OpenChannel opens a channel on the host; see [Host.OpenChannel].
func (l Link) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return l.host.OpenChannel(ctx, kind, payload)
}

// Hop is our own SSH connection through the host to a node by one of its names, the
// likeliest first. It dials nothing.
func (l Link) Hop(names []string) *Hop { return newHop(l.host, names) }
