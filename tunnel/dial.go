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
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// attempt is one try to connect to a host.
type attempt struct {
	host     *Host
	pool     *Pool
	log      *slog.Logger
	attended bool // a person may be asked
	banned   bool // a ban is suspected: the person is told first

	settings Settings
	wire     *wire
	guard    *guard
	loginAt  time.Time  // when the server began to see a login
	denied   *api.Error // why we stopped by ourselves
}

// connect dials, checks the host key and logs in.
func (t *attempt) connect(ctx context.Context) (*conn, error) {
	if t.banned {
		if err := t.confirmBan(ctx); err != nil {
			return nil, err
		}
	}
	s, err := t.pool.resolve(ctx, t.host.dest)
	if err != nil {
		return nil, err
	}
	if t.host.via != nil {
		s.ProxyJump, s.ProxyCommand = t.host.via, ""
	}
	t.settings = s
	t.host.learn(&t.settings)
	if owner := t.pool.owner(t.host, s.key()); owner != t.host {
		return t.share(ctx, owner)
	}
	t.host.step("dialling " + s.address())
	raw, via, err := t.reach(ctx)
	if err != nil {
		return nil, err
	}
	c, err := t.handshake(ctx, raw)
	if err != nil {
		return nil, err
	}
	c.owner, c.via = t.host, via
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// share uses the connection of a host that is the same account by another name.
func (t *attempt) share(ctx context.Context, owner *Host) (*conn, error) {
	t.host.step("sharing the connection of " + owner.name)
	if err := t.borrow(ctx, owner); err != nil {
		return nil, err
	}
	c, err := owner.current()
	if err != nil {
		return nil, err
	}
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// learn shows the settings a try goes by.
func (h *Host) learn(s *Settings) {
	v := s.Host()
	h.mu.Lock()
	defer h.mu.Unlock()
	v.Alias, v.State, v.Cause, v.Hint, v.Since = h.name, h.view.State, h.view.Cause, h.view.Hint, h.view.Since
	h.view = v
}

// warn shows something a person should mend, which does not stop the try.
func (t *attempt) warn(text string) {
	t.log.Warn("ssh settings", "warning", text)
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	if !slices.Contains(t.host.view.Warnings, text) {
		t.host.view.Warnings = append(slices.Clip(t.host.view.Warnings), text)
	}
}

// reach opens a byte stream to the host's port: through other hosts, through a
// command, or directly. Via names the hops.
func (t *attempt) reach(ctx context.Context) (raw net.Conn, via []string, err error) {
	limit := cmp.Or(t.settings.ConnectTimeout, t.pool.o.Limits.DialTimeout)
	switch {
	case len(t.settings.ProxyJump) > 0:
		raw, via, err = t.jump(ctx, limit)
		return raw, via, err
	case t.settings.ProxyCommand != "":
		raw, err = startProxy(ctx, &t.settings, t.pool.o.Env())
		return raw, []string{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err = t.dial(ctx)
	if err != nil {
		return nil, nil, t.unreachable(err, limit)
	}
	tune(raw, &t.settings, t.log)
	return raw, []string{}, nil
}

// dial connects by TCP, first to the login node last landed on where the host's
// name still has that address.
func (t *attempt) dial(ctx context.Context) (net.Conn, error) {
	s := &t.settings
	d := &net.Dialer{KeepAlive: 30 * time.Second}
	if !s.TCPKeepAlive {
		d.KeepAlive = -1
	}
	network := "tcp"
	switch s.AddressFamily {
	case "inet":
		network = "tcp4"
	case "inet6":
		network = "tcp6"
	}
	if s.BindAddress != "" {
		local, err := net.ResolveTCPAddr(network, net.JoinHostPort(s.BindAddress, "0"))
		if err != nil {
			return nil, &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("BindAddress %q: %v", s.BindAddress, err), Err: err}
		}
		d.LocalAddr = local
	}
	if last := t.lastAddress(ctx); last != "" {
		first, cancel := context.WithTimeout(ctx, t.pool.o.Limits.DialTimeout/3)
		c, err := t.pool.dial(first, d, network, last)
		cancel()
		if err == nil {
			return c, nil
		}
		t.log.Debug("the last login node does not answer", "address", last, "err", err)
	}
	return t.pool.dial(ctx, d, network, s.address())
}

// lastAddress is where the last login landed, if the host's name still leads there
// and to other places too.
func (t *attempt) lastAddress(ctx context.Context) string {
	last := t.pool.o.Memory.LastAddress(t.host.name)
	ip, port, err := net.SplitHostPort(last)
	if err != nil || port != fmt.Sprint(t.settings.Port) {
		return ""
	}
	all, err := t.pool.lookup(ctx, t.settings.Hostname)
	if err != nil || len(all) < 2 || !slices.Contains(all, ip) {
		return ""
	}
	return last
}

// unreachable puts a failed dial into words.
func (t *attempt) unreachable(err error, limit time.Duration) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	e := &api.Error{Code: api.CodeUnreachable, Err: err, Hint: "is the network up, and the VPN where one is needed?"}
	address := t.settings.address()
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case isDNS && dns.IsNotFound:
		e.Message = fmt.Sprintf("there is no host named %q to be found", t.settings.Hostname)
	case isDNS:
		e.Message = fmt.Sprintf("the name %q cannot be looked up: %v", t.settings.Hostname, dns.Err)
	case isConnRefused(err):
		e.Message = fmt.Sprintf("%s refuses connections", address)
		e.Hint = ""
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		e.Message = fmt.Sprintf("%s does not answer within %v", address, limit)
	default:
		e.Message = fmt.Sprintf("%s cannot be reached: %v", address, plain(err))
	}
	return e
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// plain is a network error without the addresses around it.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// handshake speaks SSH on raw, which it owns: key exchange, host key, login.
func (t *attempt) handshake(ctx context.Context, raw net.Conn) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limits := &t.pool.o.Limits
	t.wire = newWire(raw)
	t.guard = newGuard(limits.BannerTimeout, func() { _ = t.wire.Close() })
	defer t.guard.stop()
	t.wire.greeted = func() { t.guard.restart(limits.HandshakeTimeout) }
	t.wire.ended = cancel // a person need not answer a server that has hung up
	closeOnEnd := context.AfterFunc(ctx, func() { _ = t.wire.Close() })
	defer closeOnEnd()

	hostKeys := newHostKeys(ctx, t)
	login := newLogin(ctx, t)
	defer login.close()
	config, err := t.config(hostKeys, login)
	if err != nil {
		_ = t.wire.Close()
		return nil, err
	}
	t.host.step("waiting for " + t.settings.address())
	sc, channels, requests, err := ssh.NewClientConn(t.wire, t.settings.address(), config)
	if err != nil {
		return nil, t.explain(login, err)
	}
	if !closeOnEnd() {
		_ = t.wire.Close()
		return nil, context.Cause(ctx)
	}
	c := newConn(t, ssh.NewClient(sc, channels, requests))
	c.auth, c.silent = login.methods(), login.silent()
	return c, nil
}

// config is the library's, from the settings.
func (t *attempt) config(keys *hostKeys, login *login) (*ssh.ClientConfig, error) {
	common, hostKeyAlgorithms, err := algorithms(&t.settings)
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
			if err := keys.check(remote, key); err != nil {
				t.denied = asError(err)
				return err
			}
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
	address := t.settings.address()
	greeting := t.wire.badGreeting()
	negotiation, disagree := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case t.denied != nil:
		return t.denied
	case t.guard.expired() && !t.wire.hasGreeted():
		return notSSH(address, errSilent)
	case greeting != nil:
		return notSSH(address, greeting)
	case t.guard.expired():
		return &api.Error{
			Code: api.CodeUnreachable, Err: err,
			Message: fmt.Sprintf("%s did not finish the SSH handshake within %v", address, t.pool.o.Limits.HandshakeTimeout),
		}
	case disagree:
		return &api.Error{
			Code: api.CodeConfig, Err: err, Hint: "set transport = \"openssh\" for this host",
			Message: fmt.Sprintf("%s and tunctl have no algorithm in common: %v", address, negotiation),
		}
	case !t.loginAt.IsZero() && login.answered():
		return login.refused(err)
	}
	return &api.Error{
		Code: api.CodeUnreachable, Err: err,
		Message: fmt.Sprintf("the connection to %s broke off: %s", address, strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")),
	}
}

// ask asks the person who waits for this try. The handshake's clock stands still
// meanwhile. Its error is final for the try.
func (t *attempt) ask(ctx context.Context, p api.Prompt) (string, error) {
	p.Host = t.host.name
	if !t.attended {
		return "", t.deny("it asks: "+strings.TrimSpace(p.Text), ErrNobody)
	}
	if t.guard != nil {
		t.guard.pause()
		defer t.guard.resume()
	}
	limit := t.pool.o.Limits.PromptTimeout
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := t.pool.o.Prompter.Prompt(asking, p)
	switch {
	case err == nil && answer.Cancelled:
		return "", t.deny("the question was not answered", context.Canceled)
	case err == nil:
		return answer.Text, nil
	case errors.Is(err, ErrNobody):
		return "", t.deny("nobody was there to answer: "+strings.TrimSpace(p.Text), err)
	case ctx.Err() != nil:
		return "", err // the server or the wish has gone
	case asking.Err() != nil:
		return "", t.deny(fmt.Sprintf("no answer came within %v", limit), err)
	}
	return "", t.deny(fmt.Sprintf("asking failed: %v", err), err)
}

// deny stops the try: only a person can get further.
func (t *attempt) deny(why string, cause error) *api.Error {
	if t.denied == nil {
		t.denied = t.host.needsPerson(why, cause)
	}
	return t.denied
}

// confirmBan tells the person of a suspected ban before trying again.
func (t *attempt) confirmBan(ctx context.Context) error {
	answer, err := t.ask(ctx, api.Prompt{
		Kind: api.PromptConfirm, Echo: true,
		Text: fmt.Sprintf("%s may have banned this address after refused logins; another try can prolong that. Try anyway?", t.host.name),
	})
	if err != nil {
		return err
	}
	if !isYes(answer) {
		return t.deny("a ban is suspected, and you chose to wait", nil)
	}
	return nil
}

func isYes(answer string) bool {
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
