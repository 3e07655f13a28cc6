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
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/hostkey"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/tcpinfo"
)

// reach opens a byte stream to the host's port: through other hosts, through a command,
// or directly. via names the hops.
func (t *attempt) reach(ctx context.Context) (raw net.Conn, via []string, err error) {
	limit := cmp.Or(t.settings.ConnectTimeout, t.pool.o.Limits.DialTimeout)
	switch {
	case len(t.settings.ProxyJump) > 0:
		return t.jump(ctx, limit)
	case t.settings.ProxyCommand != "":
		raw, err = startProxy(ctx, &t.settings, t.pool.env(ctx))
		return raw, []string{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err = t.dial(ctx)
	if err != nil {
		t.unanswered = true
		return nil, nil, t.withSpelling(unreachableError(&t.settings, err, limit))
	}
	setTrafficClass(raw, &t.settings, t.log)
	tcpinfo.TuneRetransmit(raw)
	return raw, []string{}, nil
}

// jump reaches the host through its last hop. The hop is a host of its own, shared with
// all that go through it. A single hop uses its own settings; a later one goes through those
// before it.
func (t *attempt) jump(ctx context.Context, limit time.Duration) (net.Conn, []string, error) {
	hop := t.pool.Host(strings.Join(t.settings.ProxyJump, ","))
	t.step("connecting to " + hop.label() + " first")
	if err := t.useHost(ctx, hop, ""); err != nil {
		return nil, nil, viaError(hop.label(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.step(fmt.Sprintf("connecting to %s from %s", t.settings.Address(), hop.label()))
	c, err := hop.current()
	if err != nil {
		return nil, nil, jumpError(hop.label(), t.settings.Address(), err)
	}
	if t.identity != via(&t.settings, c.identity) {
		return nil, nil, failure.Passing.Errorf(api.CodeUnreachable, nil, "the settings of %s changed while connecting to %s",
			hop.label(), t.settings.Address())
	}
	raw, err := c.dialHop(ctx, "tcp", t.settings.Address())
	if err != nil {
		return nil, nil, jumpError(hop.label(), t.settings.Address(), err)
	}
	last := t.settings.ProxyJump[len(t.settings.ProxyJump)-1] // a hop's name includes the hops before it
	return raw, append(slices.Clone(hop.Status().Via), last), nil
}

// viaError adds which hop failed.
func viaError(hop string, err error) error {
	e := *asError(err)
	e.Message = fmt.Sprintf("cannot connect through %s: %s", hop, e.Message)
	e.Err = err
	return &e
}

// jumpError describes a failed dial from a hop.
func jumpError(hop, address string, err error) *api.Error {
	e := failure.Passing.Errorf(api.CodeUnreachable, err, "%s cannot be reached from %s: %v", address, hop, err)
	if errors.Is(err, api.ErrProhibited) {
		e.Code, e.Err = api.CodeForward, failure.Permanent.Wrap(err)
		e.Message = fmt.Sprintf("%s does not allow connections to %s", hop, address)
	}
	return e
}

// dial connects by TCP, first to the login node of the last login if the host's name
// still has that address.
func (t *attempt) dial(ctx context.Context) (net.Conn, error) {
	s := &t.settings
	d := &net.Dialer{KeepAlive: 30 * time.Second}
	if !s.TCPKeepAlive {
		d.KeepAlive = -1
	}
	network := cmp.Or(map[string]string{"inet": "tcp4", "inet6": "tcp6"}[s.AddressFamily], "tcp")
	if s.BindAddress != "" {
		local, err := net.ResolveTCPAddr(network, net.JoinHostPort(s.BindAddress, "0"))
		if err != nil {
			return nil, failure.Passing.Errorf(api.CodeConfig, err, "BindAddress %q: %v", s.BindAddress, err)
		}
		d.LocalAddr = local
	}
	if last := t.lastAddress(ctx); last != "" {
		first, cancel := context.WithTimeout(ctx, t.pool.o.Limits.DialTimeout/3)
		c, err := t.pool.network.Dial(first, d, network, last)
		cancel()
		if err == nil {
			return c, nil
		}
		t.log.Debug("the last login node does not respond", "address", last, "err", err)
	}
	return t.pool.network.Dial(ctx, d, network, s.Address())
}

// lastAddress is the address of the last login, if the host's name still has it among
// others.
func (t *attempt) lastAddress(ctx context.Context) string {
	last := t.pool.o.Memory.Known(t.host.name).Address
	ip, port, err := net.SplitHostPort(last)
	if err != nil || port != fmt.Sprint(t.settings.Port) {
		return ""
	}
	all, err := t.pool.network.Lookup(ctx, t.settings.Hostname)
	if err != nil || len(all) < 2 || !slices.Contains(all, ip) {
		return ""
	}
	return last
}

// unreachableError describes a failed dial.
func unreachableError(s *sshconfig.Settings, err error, limit time.Duration) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	e := &api.Error{Code: api.CodeUnreachable, Err: failure.Passing.Wrap(err), Hint: "check the network, and the VPN if the site needs one"}
	address := s.Address()
	dns, isDNS := errors.AsType[*net.DNSError](err)
	network, isNetwork := errors.AsType[net.Error](err)
	switch {
	case isDNS && dns.IsNotFound:
		e.Message = fmt.Sprintf("no host named %q was found", s.Hostname)
		e.Hint = "check the spelling, the network, and the VPN if the site needs one"
		if !strings.Contains(s.Hostname, ".") {
			e.Hint = "check that it is a Host of your ~/.ssh/config, or write the full name, as in login.example.org; then check the network"
		}
	case isDNS && dns.IsTimeout:
		e.Message = fmt.Sprintf("cannot look up %q: the DNS server did not respond", s.Hostname)
	case isDNS:
		e.Message = fmt.Sprintf("cannot look up %q: %v", s.Hostname, dns.Err)
	case failure.IsConnRefused(err):
		e.Err = failure.ClosedPort.Wrap(err)
		e.Message = fmt.Sprintf("%s refused the connection", address)
		e.Hint = "the machine is up, but no SSH server listens on that port: check the host and the port; the site may be down for maintenance"
	case isNetwork && network.Timeout():
		e.Message = fmt.Sprintf("%s did not respond within %s", address, api.DurationText(limit))
	default:
		e.Message = fmt.Sprintf("%s cannot be reached: %v", address, plain(err))
	}
	return e
}

// Spelling is what is known about a host's name as the user wrote it.
type Spelling struct {
	Written bool   // the name is in the config or the ssh config, or was logged in to before
	Meant   string // the name that was probably meant; "": none is similar
}

// withSpelling adds which name was probably meant. A name that DNS does not have is not
// tried again if it is unknown or similar to another.
func (t *attempt) withSpelling(e *api.Error) *api.Error {
	name := t.host.name
	s := t.pool.o.Spelling(name)
	if s.Meant != "" {
		e.Hint = fmt.Sprintf("did you mean %s?", s.Meant)
	}
	if s.Written && s.Meant == "" || !isUnknownName(e) || len(t.pool.sharing.usersOf(t.host)) > 0 {
		return e
	}
	e.Code, e.Err = api.CodeUnknownHost, failure.Permanent.Wrap(e.Err)
	e.Message = fmt.Sprintf("no host %q in the config, the ssh config or DNS", name)
	if s.Meant == "" {
		e.Hint = "`tunctl hosts` lists the hosts of the config; a name of an internal network may need the VPN"
	}
	return e
}

// isUnknownName reports whether a dial failed because DNS does not have the host's name.
func isUnknownName(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

// plain is a network error without addresses and system call.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}

// trafficClasses are the names of ssh_config's IPQoS. OpenSSH 10 reads the older lowdelay,
// throughput and reliability as none, and so do we.
var trafficClasses = map[string]int{
	"af11": 0x28, "af12": 0x30, "af13": 0x38, "af21": 0x48, "af22": 0x50, "af23": 0x58,
	"af31": 0x68, "af32": 0x70, "af33": 0x78, "af41": 0x88, "af42": 0x90, "af43": 0x98,
	"cs0": 0x00, "cs1": 0x20, "cs2": 0x40, "cs3": 0x60, "cs4": 0x80, "cs5": 0xa0, "cs6": 0xc0, "cs7": 0xe0,
	"ef": 0xb8, "le": 0x04,
}

// trafficClass is the class for forwarded data: the last word of IPQoS.
func trafficClass(ipqos string) (int, bool) {
	words := strings.Fields(ipqos)
	if len(words) == 0 {
		return 0, false
	}
	word := strings.ToLower(words[len(words)-1])
	if c, ok := trafficClasses[word]; ok {
		return c, true
	}
	n, err := strconv.ParseUint(word, 0, 8)
	return int(n), err == nil
}

// setTrafficClass sets the class that the settings name. Some networks drop or slow what
// ssh marks by default, so the default is no mark.
func setTrafficClass(c net.Conn, s *sshconfig.Settings, log *slog.Logger) {
	tos, ok := trafficClass(s.IPQoS)
	tcp, isTCP := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !isTCP {
		return
	}
	var err error
	if tcp.IP.To4() != nil {
		err = ipv4.NewConn(c).SetTOS(tos)
	} else {
		err = ipv6.NewConn(c).SetTrafficClass(tos)
	}
	if err != nil {
		log.Debug("IPQoS not set", "err", err)
	}
}

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
	return err == nil && conn.Close() == nil
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
	var refused error
	config := t.config(ctx, keys, nil)
	config.HostKeyCallback = func(_ string, remote net.Addr, key ssh.PublicKey) error {
		seen.HostKey = ssh.FingerprintSHA256(hostkey.Plain(key))
		refused = keys.Check(ctx, remote, key)
		return errHostKeySeen
	}
	_, _, _, err = ssh.NewClientConn(t.wire, t.settings.Address(), config)
	switch {
	case seen.HostKey != "":
		return seen, refused
	case ctx.Err() != nil:
		return seen, ctx.Err()
	}
	return seen, t.explain(&login{}, err)
}
