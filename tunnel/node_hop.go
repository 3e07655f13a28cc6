package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// hop is our own SSH connection to a node, through the host's. It is made when it
// is first needed and ends with the host's; there is nothing to keep alive beyond
// that one.
type hop struct {
	login *Host
	names []string
	host  *Host         // stands for the node; of no pool, and never published
	turn  chan struct{} // held by who uses or makes conn
	conn  *conn
	final error // why no more logins are tried
}

func newHop(login *Host, names []string) *hop {
	h := newHost(login.pool, login.name+","+names[0])
	h.quiet, h.behind = true, login.name
	return &hop{login: login, names: names, host: h, turn: make(chan struct{}, 1)}
}

// dial is the hop as a way onto the node.
func (p *hop) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for again := true; ; again = false {
		c, err := p.connection(ctx)
		if err != nil {
			return nil, err
		}
		nc, err := c.dial(ctx, network, address)
		switch {
		case err == nil || errors.Is(err, api.ErrRefused):
			return nc, err
		case errors.Is(err, api.ErrDown) && again:
			continue // it ended with the host's connection, or the job
		case errors.Is(err, context.DeadlineExceeded):
			p.drop(c) // a node that went without a word; the next dial finds out
			return nil, fmt.Errorf("%w: %w", errEndSilent, err)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		return nil, p.noWay(err)
	}
}

func (p *hop) noWay(err error) error { return &noWayError{"a direct SSH login", err} }

// connection is the live one, made if need be.
func (p *hop) connection(ctx context.Context) (*conn, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.conn != nil {
		if !p.conn.ended() {
			return p.conn, nil
		}
		p.conn.close(nil)
		p.conn = nil
	}
	if p.final != nil {
		return nil, p.final
	}
	c, err := p.connect(ctx)
	if err != nil {
		if isFinal(err) {
			p.final = err
		}
		return nil, err
	}
	p.conn = c
	// sshd turns Nagle's algorithm off only once a session was opened.
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loginNodeTimeout)
		defer cancel()
		_, _ = c.run(ctx, "true", nil)
	})
	return c, nil
}

// drop closes a connection that does not answer.
func (p *hop) drop(c *conn) { _ = c.wire.Close() }

func (p *hop) close() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.conn != nil {
		p.conn.close(nil)
		p.conn = nil
	}
}

// connect logs in to the node with the person's keys. Nobody is asked anything.
func (p *hop) connect(ctx context.Context) (*conn, error) {
	t := &attempt{host: p.host, pool: p.login.pool, log: p.host.log}
	preparing, cancel := context.WithTimeout(ctx, 2*p.login.pool.o.Limits.NodeDial)
	known, err := p.settings(preparing, &t.settings)
	cancel()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, p.noWay(err)
	}
	defer func() { _ = os.Remove(known) }()
	raw, err := p.knock(ctx, &t.settings)
	if err != nil {
		return nil, err
	}
	c, err := t.handshake(ctx, raw)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, p.noWay(t.classOf(err).of(err))
	}
	return c, nil
}

// settings are the person's for the node, with the account and the keys that let
// them in at the host. The returned file holds what the cluster knows of the node's
// host key; it is for the caller to remove.
func (p *hop) settings(ctx context.Context, s *sshconfig.Settings) (known string, err error) {
	login, err := p.login.current()
	if err != nil {
		return "", err
	}
	own := login.settings
	if *s, err = p.login.pool.Settings(ctx, p.names[0]); err != nil {
		return "", err
	}
	s.User = own.User
	s.ProxyJump, s.ProxyCommand = nil, ""
	s.IdentityFiles = union(own.IdentityFiles, s.IdentityFiles)
	s.CertificateFiles = union(own.CertificateFiles, s.CertificateFiles)
	s.IdentitiesOnly = s.IdentitiesOnly || own.IdentitiesOnly
	s.OwnIdentities = false // a key that is not there is no news here
	s.PasswordAuthentication, s.KbdInteractive = false, false
	if s.IdentityAgent == "" {
		s.IdentityAgent = own.IdentityAgent
	}
	known = p.clusterKeys(ctx)
	s.GlobalKnownHosts = slices.Concat(union(s.UserKnownHosts, own.UserKnownHosts), s.GlobalKnownHosts, []string{known})
	s.UserKnownHosts = nil
	// Where neither the person nor the cluster knows the node's key, it is taken as
	// it is, and not written down: nodes are reinstalled all the time. The way there
	// begins at a host whose key was checked, no password is ever sent, and plain
	// HTTP from the host to the node, the usual reach, trusts that network no less.
	if s.StrictHostKeyChecking != "yes" {
		s.StrictHostKeyChecking = "accept-new"
	}
	return known, nil
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// clusterKeys fetches what ssh on the host knows of the node's key, into a file.
func (p *hop) clusterKeys(ctx context.Context) string {
	names := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return !safeWord(name) })
	r, err := p.login.Run(ctx, "exec sh -c 'for n in "+strings.Join(names, " ")+
		"; do for f in ~/.ssh/known_hosts /etc/ssh/ssh_known_hosts; do ssh-keygen -F $n -f $f 2>/dev/null; done; done'", nil)
	if err != nil {
		r.Stdout = nil
	}
	file, err := writeTemp(r.Stdout)
	if err != nil {
		p.host.log.Debug("what the cluster knows of the node is not used", "err", err)
	}
	return file
}

// knockNext is how long one name of a node is waited for before the next is tried too.
const knockNext = 500 * time.Millisecond

// knock opens a stream to the node's SSH port by the first of its names that leads
// there. They are tried one after another, and side by side where one does not answer:
// a firewall that drops packets must not use up the time of the other ways.
func (p *hop) knock(ctx context.Context, s *sshconfig.Settings) (net.Conn, error) {
	names := union([]string{s.Hostname}, p.names)
	type answer struct {
		raw net.Conn
		err error
	}
	answers := make(chan answer, len(names))
	knocking, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
		close(answers)
		for a := range answers {
			if a.err == nil {
				_ = a.raw.Close() // another name was quicker
			}
		}
	}()
	var first error
	for next, open := 0, 0; ; {
		var soon <-chan time.Time
		if next < len(names) {
			name := names[next]
			wg.Go(func() {
				raw, err := p.knockAt(knocking, net.JoinHostPort(name, strconv.Itoa(s.Port)))
				answers <- answer{raw, err}
			})
			next, open = next+1, open+1
			soon = time.After(knockNext)
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
				return nil, p.noWay(classPermanent.of(a.err))
			case first == nil:
				first = a.err
			}
			if open == 0 && next == len(names) {
				return nil, p.noWay(classPassing.of(first))
			}
		}
	}
}

// knockAt opens a stream to one address, within the time that a name has.
func (p *hop) knockAt(ctx context.Context, address string) (net.Conn, error) {
	limit := p.login.pool.o.Limits.NodeDial
	dialing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := p.login.Dial(dialing, "tcp", address)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s", address, api.DurationText(limit))
	}
	return raw, err
}
