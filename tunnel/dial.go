package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"tunctl/internal/api"
)

// reach opens a byte stream to the host's port: through other hosts, through a
// command, or directly. Via names the hops.
func (t *attempt) reach(ctx context.Context) (raw net.Conn, via []string, err error) {
	limit := cmp.Or(t.settings.ConnectTimeout, t.pool.o.Limits.DialTimeout)
	switch {
	case len(t.settings.ProxyJump) > 0:
		raw, via, err = t.jump(ctx, limit)
		return raw, via, err
	case t.settings.ProxyCommand != "":
		raw, err = startProxy(ctx, &t.settings, t.pool.env(ctx))
		return raw, []string{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err = t.dial(ctx)
	if err != nil {
		return nil, nil, t.misspelled(t.unreachable(err, limit))
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
			return nil, &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("BindAddress %q: %v", s.BindAddress, err), Err: classPassing.of(err)}
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
		t.log.Debug("the last login node does not respond", "address", last, "err", err)
	}
	return t.pool.dial(ctx, d, network, s.Address())
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
	e := &api.Error{Code: api.CodeUnreachable, Err: classPassing.of(err), Hint: "check the network, and the VPN if the site needs one"}
	address := t.settings.Address()
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case isDNS && dns.IsNotFound:
		e.Message = fmt.Sprintf("no host named %q was found", t.settings.Hostname)
	case isDNS && dns.IsTimeout:
		e.Message = fmt.Sprintf("cannot look up %q: the DNS server did not respond", t.settings.Hostname)
	case isDNS:
		e.Message = fmt.Sprintf("cannot look up %q: %v", t.settings.Hostname, dns.Err)
	case isConnRefused(err):
		e.Err = classClosedPort.of(err)
		e.Message = fmt.Sprintf("%s refused the connection", address)
		e.Hint = "the machine is up, but no SSH server listens on that port: check the host and the port; the site may be down for maintenance"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		e.Message = fmt.Sprintf("%s did not respond within %s", address, api.DurationText(limit))
	default:
		e.Message = fmt.Sprintf("%s cannot be reached: %v", address, plain(err))
	}
	return e
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// plain is a network error without the addresses and the system call around it.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}
