package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// host looks at the way to a host: first how it is read, then how it answers. Where
// a connection is up, that is proof enough and nothing more is dialled.
func (e *examination) host(ctx context.Context, name string) {
	settings, err := e.resolve(ctx, name)
	if err != nil {
		e.failed("ssh config", err, "`tunctl hosts "+name+"` shows how it is read")
		return
	}
	live := e.live(name)
	if live.Outdated != "" {
		e.unknown("ssh config", live.Outdated, "`tunctl hosts "+name+"` shows how it is read")
	}
	for _, w := range live.Warnings { // the agent may know other programs
		if !slices.Contains(settings.Warnings, w) {
			e.unknown("ssh config", "in the agent: "+w, "`tunctl hosts "+name+"` shows how it is read")
		}
	}
	e.keys(ctx, settings, live)
	switch live.State {
	case api.HostUp:
		e.remote(ctx, api.CheckRequest{Host: name})
		return
	case api.HostBlocked: // another connection could prolong a ban
		e.bad("connection", live.Cause, live.Hint)
		return
	case api.HostNeedsLogin, api.HostWaiting:
		e.unknown("connection", live.Cause, live.Hint)
	}
	if settings.ProxyJump != "" || settings.ProxyCommand != "" {
		e.beyond(ctx, name, settings)
		return
	}
	if !e.way(ctx, name, settings) {
		return
	}
	e.unknown("login", "not connected: how a login goes is known after one", "`tunctl login "+name+"` logs in; doctor never does, so that it can never fail one")
}

func (e *examination) resolve(ctx context.Context, name string) (api.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	h, err := e.Resolve(ctx, name)
	if err != nil {
		return h, err
	}
	e.ok("ssh config", "%s@%s, read by %s", h.User, net.JoinHostPort(h.Hostname, fmt.Sprint(h.Port)), h.Source)
	for _, w := range h.Warnings {
		e.unknown("ssh config", w, "`tunctl hosts "+name+"` shows how it is read")
	}
	return h, nil
}

// live is the host as the agent has it.
func (e *examination) live(name string) api.Host {
	for _, h := range e.status.Hosts {
		if h.Alias == name {
			return h
		}
	}
	return api.Host{State: api.HostDown}
}

// keys looks at what there is to log in with.
func (e *examination) keys(ctx context.Context, h, live api.Host) {
	found := []string{}
	for _, path := range h.IdentityFiles {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
			e.bad("key", fmt.Sprintf("%s can be read by others, so ssh will not use it", path), fmt.Sprintf("chmod 600 %q", path))
			return
		default:
			found = append(found, path)
		}
	}
	switch reached, err := dialSocket(ctx, e.AgentSocket); {
	case err != nil:
		e.bad("key", fmt.Sprintf("the ssh agent does not answer: %v", err), "start it anew, or log in to the desktop again; then `ssh-add -l` must answer")
		return
	case reached:
		found = append(found, "those in the ssh agent")
	}
	switch {
	case len(found) == 0 && live.State == api.HostUp: // the agent found what is not to be seen from here
		e.ok("key", "no key file or ssh agent is seen from here, and none is needed: the host is connected")
		return
	case len(found) == 0:
		e.unknown("key", "there is no key file and no ssh agent: only a password or a code can log in", "`ssh-keygen` makes a key, where the site takes one")
		return
	}
	e.ok("key", "%s", strings.Join(found, ", "))
}

// dialSocket reports whether something answers at path; none is no error.
func dialSocket(ctx context.Context, path string) (bool, error) {
	if path == "" || runtime.GOOS == "windows" { // a pipe of the system's there
		return false, nil
	}
	c, err := (&net.Dialer{Timeout: checkTime}).DialContext(ctx, "unix", path)
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

// way looks at each step to the host's port: its name, the port, the greeting and
// the host key. It reports whether a login could be tried.
func (e *examination) way(ctx context.Context, name string, h api.Host) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*checkTime)
	defer cancel()
	if net.ParseIP(h.Hostname) == nil {
		addresses, err := e.Lookup(ctx, h.Hostname)
		if err != nil {
			e.away(ctx, "name", name, fmt.Errorf("the name %q cannot be looked up: %w", h.Hostname, plainDNS(err)))
			return false
		}
		e.ok("name", "%s is %s", h.Hostname, strings.Join(addresses, ", "))
	}
	sight, err := e.Look(ctx, name)
	if sight.Address == "" {
		e.away(ctx, "port", name, err)
		return false
	}
	e.ok("port", "%s answers", sight.Address)
	if sight.Greeting == "" {
		e.away(ctx, "greeting", name, err)
		return false
	}
	e.ok("greeting", "%s", sight.Greeting)
	return e.hostKey(sight, err)
}

func (e *examination) hostKey(sight Sight, err error) bool {
	x, known := errors.AsType[*api.Error](err)
	switch {
	case err == nil:
		e.ok("host key", "%s is known", sight.HostKey)
	case known && x.Code == api.CodeNeedsPerson:
		e.unknown("host key", x.Message, x.Hint)
	default:
		e.failed("host key", err, "ask the site's support")
		return false
	}
	return true
}

// away reports that a host is out of reach. What its site says must be true before SSH
// helps more than what can be said of any host.
func (e *examination) away(ctx context.Context, check, name string, err error) {
	if advice := e.Advice(ctx, name); advice != "" {
		e.bad(check, err.Error(), advice)
		return
	}
	e.failed(check, err, "is the network up, and the VPN where one is needed? Open a web page to see whether a portal is in the way")
}

// beyond looks at the first hop only: what lies behind it is seen by a login.
func (e *examination) beyond(ctx context.Context, name string, h api.Host) {
	first, _, _ := strings.Cut(h.ProxyJump, ",")
	if first == "" || strings.EqualFold(first, "none") {
		e.unknown("port", "it is reached through a command of the ssh config: "+h.ProxyCommand, "`tunctl login "+name+"` tries it")
		return
	}
	hop, err := e.Resolve(ctx, first)
	if err != nil {
		e.failed("jump host", err, "`tunctl hosts "+first+"` shows how it is read")
		return
	}
	e.ok("jump host", "it is reached through %s", h.ProxyJump)
	if hop.ProxyJump == "" && hop.ProxyCommand == "" && !e.way(ctx, first, hop) {
		return
	}
	e.unknown("port", "what lies behind the jump host is seen by a login only", "`tunctl login "+name+"` tries it")
}

// plainDNS leaves out which server was asked.
func plainDNS(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	return err
}
