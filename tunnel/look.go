package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// Sight is what can be seen of a host's port without logging in. What could not be
// seen is empty.
type Sight struct {
	Address  string // that answered
	Greeting string // the server's version line
	HostKey  string // its fingerprint
}

const (
	lookDial      = 10 * time.Second
	lookHandshake = 10 * time.Second
	lookPort      = 3 * time.Second
)

// Answers reports whether anything listens at an address, from here and soon.
func Answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookPort)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// errLooked ends a handshake once the host key was seen.
var errLooked = errors.New("seen enough")

// Look connects to a host's port and goes as far as its host key, as ssh-keyscan
// does: no login is tried, so that none can fail, and nothing is written to
// known_hosts. The error is an *api.Error about the first thing that is wrong.
func Look(ctx context.Context, s sshconfig.Settings) (Sight, error) {
	if len(s.ProxyJump) > 0 || s.ProxyCommand != "" {
		return Sight{}, &api.Error{Code: api.CodeUsage, Message: s.Alias + " is reached through another host or a command, which needs a login"}
	}
	s.StrictHostKeyChecking = "ask" // an unknown key is told, never taken
	t := &attempt{host: &Host{name: s.Alias}, log: slog.New(slog.DiscardHandler), settings: s}
	limit := cmp.Or(s.ConnectTimeout, lookDial)
	dialing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(dialing, "tcp", s.Address())
	if err != nil {
		return Sight{}, t.unreachable(err, limit)
	}
	defer func() { _ = raw.Close() }()
	sight := Sight{Address: raw.RemoteAddr().String()}
	err = t.lookAt(ctx, raw, &sight)
	return sight, err
}

// lookAt fills in the server's greeting and host key.
func (t *attempt) lookAt(ctx context.Context, raw net.Conn, sight *Sight) error {
	t.wire = newWire(raw)
	t.wire.greeted = func() {
		text, _ := t.wire.r.Peek(t.wire.r.Buffered())
		sight.Greeting = firstLine(text).String()
	}
	t.guard = newGuard(lookHandshake, func() { _ = t.wire.Close() })
	defer t.guard.stop()
	defer context.AfterFunc(ctx, func() { _ = t.wire.Close() })()
	keys := newHostKeys(ctx, t)
	common, hostKeyAlgorithms, err := t.settings.Algorithms()
	if err == nil {
		err = keys.load()
	}
	if err != nil {
		return err
	}
	var verdict error
	_, _, _, err = ssh.NewClientConn(t.wire, t.settings.Address(), &ssh.ClientConfig{
		Config:            common,
		HostKeyAlgorithms: keys.order(hostKeyAlgorithms),
		ClientVersion:     "SSH-2.0-tunctl",
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			sight.HostKey = ssh.FingerprintSHA256(plainKey(key))
			verdict = keys.check(remote, key)
			return errLooked
		},
	})
	switch {
	case sight.HostKey != "":
		return verdict
	case ctx.Err() != nil:
		return ctx.Err()
	case t.guard.expired() && !t.wire.hasGreeted():
		return notSSH(t.settings.Address(), errSilent)
	case t.wire.badGreeting() != nil:
		return notSSH(t.settings.Address(), t.wire.badGreeting())
	}
	err = api.RemoteError(err)
	return &api.Error{Code: api.CodeUnreachable, Err: err, Message: fmt.Sprintf("%s did not finish the SSH handshake: %v", t.settings.Address(), err)}
}
