package tunnel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/hostkey"
	"tunctl/tunnel/sshconfig"
)

// PreflightResult is what a host's port shows without a login. Unknown parts are empty.
type PreflightResult struct {
	Address  string // of the connection
	Greeting string // the server's version line
	HostKey  string // its fingerprint
}

const (
	preflightTimeout = 10 * time.Second // of the dial, and of the handshake
	reachableTimeout = 3 * time.Second
)

// Reachable reports whether something listens at an address.
func Reachable(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: reachableTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// errHostKeySeen ends the handshake after the host key.
var errHostKeySeen = errors.New("seen enough")

// Preflight connects to a host's port up to the host key, as ssh-keyscan does. It tries
// no login and writes nothing to known_hosts. The error is an *api.Error about the first
// problem.
func Preflight(ctx context.Context, s sshconfig.Settings) (seen PreflightResult, err error) {
	if len(s.ProxyJump) > 0 || s.ProxyCommand != "" {
		return seen, api.Errorf(api.CodeUsage, "%s is reached through another host or a command, which needs a login", s.Alias)
	}
	s.StrictHostKeyChecking = "ask" // an unknown key is reported, never accepted
	t := newAttempt(&Host{
		pool: &Pool{
			o:       Options{Limits: Limits{HandshakeTimeout: preflightTimeout}},
			network: Network{Lookup: net.DefaultResolver.LookupHost},
		},
		hostState: hostState{name: s.Alias, log: slog.New(slog.DiscardHandler)},
	})
	t.settings = s
	d := net.Dialer{Timeout: cmp.Or(s.ConnectTimeout, preflightTimeout)}
	raw, err := d.DialContext(ctx, "tcp", s.Address())
	if err != nil {
		return seen, unreachableError(&s, err, d.Timeout)
	}
	defer func() { _ = raw.Close() }()
	seen.Address = raw.RemoteAddr().String()
	t.wire = newWire(raw)
	t.wire.onGreeting = func() {
		text, _ := t.wire.r.Peek(t.wire.r.Buffered())
		seen.Greeting = firstLine(text).String()
	}
	t.ask.timeout = newTimeout(preflightTimeout, func() { _ = t.wire.Close() })
	defer t.ask.timeout.stop()
	defer context.AfterFunc(ctx, func() { _ = t.wire.Close() })()
	keys, err := hostkey.Load(t.hostKeyOptions(&t.ask))
	if err != nil {
		return seen, err
	}
	common, algorithms := keys.Algorithms()
	var refused error
	_, _, _, err = ssh.NewClientConn(t.wire, t.settings.Address(), &ssh.ClientConfig{
		Config:            common,
		HostKeyAlgorithms: algorithms,
		ClientVersion:     "SSH-2.0-tunctl",
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			seen.HostKey = ssh.FingerprintSHA256(hostkey.Plain(key))
			refused = keys.Check(ctx, remote, key)
			return errHostKeySeen
		},
	})
	switch {
	case seen.HostKey != "":
		return seen, refused
	case ctx.Err() != nil:
		return seen, ctx.Err()
	}
	return seen, t.explain(&login{}, err)
}
