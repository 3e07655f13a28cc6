package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// handshake speaks SSH on raw, which it owns: key exchange, host key, login.
func (t *attempt) handshake(ctx context.Context, raw net.Conn) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limits := &t.pool.o.Limits
	wire := newWire(raw) // not t's: that may have another before the end of this one
	t.wire = wire
	t.guard = newGuard(t.bannerLimit(), func() { _ = wire.Close() })
	defer t.guard.stop()
	t.wire.greeted = func() { t.guard.restart(limits.HandshakeTimeout) }
	t.wire.ended = cancel // a person need not answer a server that has hung up
	closeOnEnd := context.AfterFunc(ctx, func() { _ = wire.Close() })
	defer closeOnEnd()

	hostKeys := newHostKeys(ctx, t)
	login := newLogin(ctx, t)
	defer login.close()
	config, err := t.config(hostKeys, login)
	if err != nil {
		_ = t.wire.Close()
		return nil, err
	}
	t.host.step("waiting for " + t.settings.Address())
	sc, channels, requests, err := ssh.NewClientConn(t.wire, t.settings.Address(), config)
	if err != nil {
		return nil, t.explain(login, err)
	}
	if !closeOnEnd() {
		_ = t.wire.Close()
		return nil, context.Cause(ctx)
	}
	c := newConn(t, ssh.NewClient(sc, channels, requests))
	login.keepPassword()
	c.auth, c.silent, c.ends = login.methods(), login.silent(), login.keys.ends()
	c.agreed = agreed(sc)
	return c, nil
}

// bannerLimit bounds the wait for the server's first line. A ProxyCommand usually has to
// reach another host and log in there before it can pass on any.
func (t *attempt) bannerLimit() time.Duration {
	limits := &t.pool.o.Limits
	if t.settings.ProxyCommand == "" {
		return limits.BannerTimeout
	}
	return cmp.Or(t.settings.ConnectTimeout, limits.DialTimeout) + limits.HandshakeTimeout + limits.BannerTimeout
}

// config is the library's, from the settings.
func (t *attempt) config(keys *hostKeys, login *login) (*ssh.ClientConfig, error) {
	common, hostKeyAlgorithms, err := t.settings.Algorithms()
	if err != nil {
		return nil, err
	}
	if err := keys.load(); err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		Config:            common,
		User:              t.settings.User,
		HostKeyAlgorithms: keys.order(hostKeyAlgorithms),
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			if !t.loginAt.IsZero() {
				return keys.same(key) // the keys are exchanged again now and then
			}
			if err := keys.check(remote, key); err != nil {
				t.denied = asError(err)
				return err
			}
			keys.shown = key
			t.loginAt = time.Now()
			t.host.step("logging in as " + t.settings.User)
			return nil
		},
		AuthCallback:   login.next,
		BannerCallback: login.banner,
		ClientVersion:  "SSH-2.0-tunctl",
	}, nil
}

// explain puts a failed handshake into words.
func (t *attempt) explain(login *login, err error) *api.Error {
	err = api.RemoteError(err)
	address := t.settings.Address()
	greeting := t.wire.badGreeting()
	negotiation, disagree := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case t.denied != nil:
		return t.denied
	case t.guard.expired() && !t.wire.hasGreeted() && t.settings.ProxyCommand != "":
		return silentProxy(address, t.bannerLimit(), greeting)
	case t.guard.expired() && !t.wire.hasGreeted():
		return notSSH(address, errSilent)
	case greeting != nil:
		return notSSH(address, greeting)
	case t.guard.expired(): // of no class of its own: it may have been a login by then
		return &api.Error{
			Code: api.CodeUnreachable, Err: err,
			Message: fmt.Sprintf("%s did not finish the SSH handshake within %s", address, api.DurationText(t.pool.o.Limits.HandshakeTimeout)),
		}
	case disagree:
		return &api.Error{
			Code: api.CodeConfig, Err: classPermanent.of(err), Hint: "set transport = \"openssh\" for this host",
			Message: fmt.Sprintf("%s and tunctl have no algorithm in common: %v", address, api.RemoteError(negotiation)),
		}
	case !t.loginAt.IsZero() && login.answered():
		return login.refused(err)
	}
	why := strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")
	if said, ok := disconnectText(err); ok {
		why = "the server said: " + said.String()
	}
	return &api.Error{
		Code: api.CodeUnreachable, Err: classPassing.of(err),
		Message: fmt.Sprintf("the connection to %s was interrupted: %s", address, why),
	}
}

// agreed are the algorithms of a connection; nil where it does not tell.
func agreed(c ssh.Conn) *api.Algorithms {
	m, ok := c.(ssh.AlgorithmsConnMetadata)
	if !ok {
		return nil
	}
	a := m.Algorithms()
	return &api.Algorithms{
		KeyExchange: a.KeyExchange, HostKey: a.HostKey,
		Cipher: bothWays(a.Write.Cipher, a.Read.Cipher), MAC: bothWays(a.Write.MAC, a.Read.MAC),
	}
}

// bothWays is one name where both directions have the same.
func bothWays(out, in string) string {
	if out == in {
		return out
	}
	return out + " out, " + in + " in"
}
