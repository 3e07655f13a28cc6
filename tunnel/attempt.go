package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/hostkey"
	"tunctl/tunnel/pace"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// attempt is one try to connect to a host.
type attempt struct {
	host   *Host
	pool   *Pool
	log    *slog.Logger
	ask    asker
	banned bool // a ban is suspected: ask the user first
	waited bool // somebody waits for the host, who cannot be asked

	began      time.Time
	unanswered bool // a direct dial got no answer: the server has seen nothing to count

	settings sshconfig.Settings
	identity string // of the connection that the settings lead to
	wire     *wire
	loginAt  time.Time // when the server first saw a login
	answered bool      // the user answered questions of the ssh program
	whySSH   string    // why the ssh program logs in, where the config does not say so
}

func newAttempt(h *Host) *attempt {
	return &attempt{host: h, pool: h.pool, log: h.log, ask: asker{host: h}}
}

// connect dials, checks the host key and logs in.
func (t *attempt) connect(ctx context.Context) (*conn, error) {
	if t.banned {
		if err := t.ask.confirmBan(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.resolve(ctx); err != nil {
		return nil, err
	}
	if c, err := t.sharedOrOwn(ctx); c != nil || err != nil {
		return c, err
	}
	if err := t.checkAccount(); err != nil {
		return nil, err
	}
	if err := t.runBeforeLogin(ctx); err != nil {
		return nil, err
	}
	c, err := t.logIn(ctx)
	if err != nil {
		return nil, err
	}
	c.owner = t.host
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// resolve reads the settings and finds the identity of the connection they lead to.
func (t *attempt) resolve(ctx context.Context) (err error) {
	if t.settings, err = t.pool.Settings(ctx, t.host.name); err != nil {
		return err
	}
	t.showSettings()
	if t.identity, err = t.pool.identity(ctx, &t.settings, t.host.name); err != nil {
		return err
	}
	if !t.host.updateIdentity(t.identity) {
		return fmt.Errorf("%s: %w", t.host.label(), api.ErrDown) // only the users of the old identity wanted it
	}
	return nil
}

// runBeforeLogin runs the config's before_login command, such as one that fetches a
// certificate. It runs only while the user waits: it may open a browser or need a touch.
func (t *attempt) runBeforeLogin(ctx context.Context) error {
	line := t.settings.BeforeLogin
	if line == "" || !t.ask.attended {
		return nil
	}
	t.step("running " + line)
	limit := t.pool.o.Limits.PromptTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := newStderrBuffer()
	cmd := sshconfig.ShellCommand(ctx, line, t.pool.env(ctx))
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	e := &api.Error{Code: api.CodeFailed, Err: failure.Permanent.Wrap(err), Hint: "run the command in a terminal to see what it asks for, then `tunctl login " + t.host.name + "`"}
	e.Message = fmt.Sprintf("before_login = %q failed: %v", line, err)
	if ctx.Err() != nil {
		e.Message = fmt.Sprintf("before_login = %q did not end within %s", line, api.DurationText(limit))
	}
	if text := said.tail(); !text.IsZero() {
		e.Message += "; its output: " + hideLinks(text)
	}
	return e
}

// logIn logs in natively or by the ssh program.
func (t *attempt) logIn(ctx context.Context) (*conn, error) {
	if !t.usesSSHProgram(ctx) {
		c, err := t.logInNatively(ctx)
		if err == nil || t.whySSH == "" {
			return c, err
		}
		t.log.Info("the ssh program logs in instead", "why", t.whySSH)
	}
	return t.logInBySSH(ctx)
}

// logInNatively logs in with x/crypto/ssh.
func (t *attempt) logInNatively(ctx context.Context) (*conn, error) {
	t.step("connecting to " + t.settings.Address())
	raw, via, err := t.reach(ctx)
	if err != nil {
		return nil, err
	}
	c, err := t.handshake(ctx, raw)
	if err != nil {
		return nil, err
	}
	c.via = via
	return c, nil
}

// step records what the try is doing now.
func (t *attempt) step(what string) { t.host.change(func(f *facts) { f.trying = what }) }

// loginBegins saves that a login begins, before the server counts it: if this process
// ends during the login, the next one waits as long as this one would have.
func (t *attempt) loginBegins(at time.Time) {
	t.loginAt = at
	t.host.saveLogins(func(l *api.Logins) {
		t.host.facts.loggingIn = true
		l.Last = at
	})
}

// setHandshake says which handshake is under way; nil: none.
func (t *attempt) setHandshake(s *handshake) {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.host.handshake = s
}

// showSettings records the settings of the try in its host's view.
func (t *attempt) showSettings() {
	h, v := t.host, t.settings.Host()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used, h.outdated = t.settings, false
	v.Alias, v.State, v.Cause, v.Hint, v.Since = h.name, h.view.State, h.view.Cause, h.view.Hint, h.view.Since
	h.view = v
}

// classOf is the class of the try's failure. An unknown failure may pass; but after the
// server saw a login it counts as refused, since a lockout is worse than a wait.
func (t *attempt) classOf(err error) failure.Class {
	c := failure.Of(err)
	switch {
	case c != failure.Unknown:
		return c
	case !t.loginAt.IsZero():
		return failure.Refused
	}
	return failure.Passing
}

// checkAccount prevents an automatic login to an account that was never logged in to:
// what Memory says about silent logins is about other accounts.
func (t *attempt) checkAccount() error {
	known := t.pool.o.Memory.Known(t.host.name).Accounts
	if t.ask.attended || len(known) == 0 || slices.Contains(known, t.identity) {
		return nil
	}
	return needsUser(t.host.name, fmt.Sprintf("the settings now lead to %s, where you have not logged in yet", t.identity), nil)
}

// handshake is the part of one that events of its host change.
type handshake struct {
	wire    *wire
	timeout *timeout
	waited  bool        // see attempt
	moved   atomic.Bool // this computer lost the stream's address, so no answer can come
}

// shortenBanner ends a long wait for the server's first line soon: a new dial may do
// better.
func (s *handshake) shortenBanner(limit time.Duration) {
	if s != nil && s.waited && !s.wire.greeted.Load() {
		s.timeout.shorten(limit)
	}
}

// handshake runs the SSH handshake on raw, which it owns: key exchange, host key, login.
func (t *attempt) handshake(ctx context.Context, raw net.Conn) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire := newWire(raw) // t.wire may be replaced while this one still closes
	t.wire = wire
	t.ask.timeout = newTimeout(t.bannerLimit(), func() { _ = wire.Close() })
	defer t.ask.timeout.stop()
	during := &handshake{wire: wire, timeout: t.ask.timeout, waited: t.waited}
	t.setHandshake(during)
	defer t.setHandshake(nil)
	t.wire.onGreeting = t.ask.awaitHost
	t.wire.onEnd = cancel // ends a prompt when the server hangs up
	closeOnEnd := context.AfterFunc(ctx, func() { _ = wire.Close() })
	defer closeOnEnd()

	login := newLogin(ctx, t)
	defer login.close()
	keys, err := hostkey.Load(t.hostKeyOptions(&t.ask))
	if err != nil {
		_ = t.wire.Close()
		return nil, err
	}
	t.step("waiting for " + t.settings.Address())
	sc, channels, requests, err := ssh.NewClientConn(t.wire, t.settings.Address(), t.config(ctx, keys, login))
	login.page.withdraw()
	if err != nil && during.moved.Load() {
		return nil, failure.Passing.Wrap(fmt.Errorf("%s: %w", t.host.label(), errAddressGone))
	}
	if err != nil {
		return nil, t.explain(login, err)
	}
	if !closeOnEnd() {
		_, lost := wire.ending()
		_ = wire.Close()
		return nil, t.interrupted(login, cmp.Or(lost, errors.New("the server closed it")))
	}
	wire.loggedIn.Store(true)
	c := newConn(t, ssh.NewClient(sc, channels, requests))
	login.keepPassword()
	c.auth, c.silent, c.certificateEnds = login.methods(), login.silent(), login.keys.CertificateEnd()
	c.hostKey, c.algorithms = keys.Accepted(), negotiated(sc)
	c.meter = pace.NewMeter(pace.Connection{
		Ping: c.pingForClient, Sent: wire.sent.Load, Received: wire.received.Load, Spawn: c.spawn, Done: c.done,
	})
	return c, nil
}

// bannerLimit bounds the wait for the server's first line. A ProxyCommand usually logs
// in to another host before it can forward one. While somebody waits, the connection
// that the server's system has accepted is kept: connections that are opened and closed
// again look like a scan. The user's action or a new network shortens that wait.
func (t *attempt) bannerLimit() time.Duration {
	limits := &t.pool.o.Limits
	switch {
	case t.settings.ProxyCommand == "" && t.waited && len(t.settings.ProxyJump) == 0:
		return limits.WaitedBanner
	case t.settings.ProxyCommand == "":
		return limits.BannerTimeout
	}
	return cmp.Or(t.settings.ConnectTimeout, limits.DialTimeout) + limits.HandshakeTimeout + limits.BannerTimeout
}

// hostKeyOptions are what the check of the server's key needs of the try.
func (t *attempt) hostKeyOptions(ask *asker) hostkey.Options {
	return hostkey.Options{Settings: &t.settings, Host: t.host.name, Asker: ask, Lookup: t.pool.network.Lookup, Log: t.log}
}

// keyOptions are where the user's keys come from.
func (t *attempt) keyOptions() userkeys.Options {
	return userkeys.Options{
		Settings: &t.settings, Asker: keyAsker{&t.ask}, Keyring: &t.pool.keys, Envs: t.pool.o.Envs(), Log: t.log,
		Passphrase: t.pool.o.Passphrase,
		Signing: func() (done func()) {
			t.ask.awaitPerson()
			return t.ask.awaitHost
		},
	}
}

// keyAsker asks for passphrases. A key that nobody can open does not stop the try: another
// key may work.
type keyAsker struct{ *asker }

// Prompt implements userkeys.Asker.
func (a keyAsker) Prompt(ctx context.Context, p api.Prompt) (api.Answer, error) {
	answer, err := a.asker.Prompt(ctx, p)
	if errors.Is(err, failure.ErrNobody) {
		a.denied = nil
	}
	return answer, err
}

// acceptsKeyOf reports whether the host's own settings accept the key of a connection that
// it could share. It asks nobody. Of a key that the ssh program checked, only the settings
// are known.
func (t *attempt) acceptsKeyOf(ctx context.Context, c *conn) bool {
	if c.hostKey == nil {
		return t.settings.SameHostKeys(&c.settings)
	}
	keys, err := hostkey.Load(t.hostKeyOptions(&asker{host: t.host}))
	return err == nil && // else its own login says why
		keys.CouldShow(c.hostKey) && keys.Check(ctx, c.wire.RemoteAddr(), c.hostKey) == nil
}

// config is the library's configuration.
func (t *attempt) config(ctx context.Context, keys *hostkey.Checker, login *login) *ssh.ClientConfig {
	common, algorithms := keys.Algorithms()
	return &ssh.ClientConfig{
		Config:            common,
		User:              t.settings.User,
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			if !t.loginAt.IsZero() {
				return keys.CheckSame(key) // a later key exchange of this connection
			}
			if err := keys.Check(ctx, remote, key); err != nil {
				t.ask.denied = asError(err)
				return err
			}
			t.ask.awaitHost() // also after the user accepted the key
			t.loginBegins(time.Now())
			t.step("logging in as " + t.settings.User)
			return nil
		},
		AuthCallback:   login.next,
		BannerCallback: login.banner,
		ClientVersion:  "SSH-2.0-tunctl",
	}
}

// explain describes a failed handshake.
func (t *attempt) explain(login *login, err error) *api.Error {
	err = api.RemoteError(err)
	address := t.settings.Address()
	greeting := t.wire.badGreeting()
	negotiation, disagree := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	expired, ofPerson := t.ask.timeout.expired()
	if proxy, ok := errors.AsType[*proxyError](greeting); ok && proxy.class() == failure.Refused {
		t.loginAt = time.Now()
	}
	switch {
	case t.ask.denied != nil:
		return t.ask.denied
	case expired && !t.wire.greeted.Load() && t.settings.ProxyCommand != "":
		return silentProxy(address, t.bannerLimit(), greeting)
	case expired && !t.wire.greeted.Load():
		return notSSH(address, errSilent)
	case greeting != nil:
		return notSSH(address, greeting)
	case ofPerson:
		return t.ask.unconfirmed(err)
	case expired:
		return t.interrupted(login, fmt.Errorf("no answer within %s", api.DurationText(t.pool.o.Limits.HandshakeTimeout)))
	case login.lost != nil:
		return t.interrupted(login, login.lost)
	case disagree:
		return failure.Permanent.Errorf(api.CodeConfig, err, "%s and tunctl have no algorithm in common: %v",
			address, api.RemoteError(negotiation)).WithHint(`set transport = "openssh" for this host`)
	case !t.loginAt.IsZero() && login.offered:
		return login.refused(err)
	}
	if said, ok := disconnectText(err); ok {
		err = fmt.Errorf("the server said: %s", said)
	}
	return t.interrupted(login, err)
}

// interrupted describes a handshake that our link ended, or a server that did not answer:
// nothing was refused.
func (t *attempt) interrupted(login *login, err error) *api.Error {
	why, how := strings.TrimPrefix(plain(err).Error(), "ssh: handshake failed: "), "was interrupted"
	if !t.loginAt.IsZero() {
		if login.needsPerson() {
			return needsUser(t.host.name, brokenLogin+": "+why, err)
		}
		how = "broke during the login"
	}
	return failure.Passing.Errorf(api.CodeUnreachable, err, "the connection to %s %s: %s", t.settings.Address(), how, why)
}

// negotiated are the algorithms of a connection that the library made.
func negotiated(c ssh.Conn) *api.Algorithms {
	a := c.(ssh.AlgorithmsConnMetadata).Algorithms()
	return &api.Algorithms{
		KeyExchange: a.KeyExchange, HostKey: a.HostKey,
		Cipher: bothWays(a.Write.Cipher, a.Read.Cipher), MAC: bothWays(a.Write.MAC, a.Read.MAC),
	}
}

// bothWays is a single name if both directions have the same.
func bothWays(out, in string) string {
	if out == in {
		return out
	}
	return out + " out, " + in + " in"
}
