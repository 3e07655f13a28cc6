package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// host checks a host: first its settings, then the route to it. If it is connected, that
// is proof enough, and nothing is dialled.
func (e *examination) host(ctx context.Context, name string) {
	fix := "`tunctl hosts " + name + "` shows its settings"
	settings, err := e.resolve(ctx, name)
	if err != nil {
		e.failed("ssh config", err, fix)
		return
	}
	e.ok("ssh config", "%s@%s, read from %s", settings.User, net.JoinHostPort(settings.Hostname, fmt.Sprint(settings.Port)), settings.Source)
	for _, w := range settings.Warnings {
		e.unknown("ssh config", w, fix)
	}
	live := e.agentHost(name)
	if live.Outdated != "" {
		e.unknown("ssh config", live.Outdated, fix)
	}
	for _, w := range live.Warnings { // the agent may know other programs
		if !slices.Contains(settings.Warnings, w) {
			e.unknown("ssh config", "in the agent: "+w, fix)
		}
	}
	e.keys(ctx, settings, live)
	e.certificate(name, settings, live)
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
		e.jumpHost(ctx, name, settings)
	} else if e.route(ctx, name, settings) {
		e.unknown("login", "not connected, so the login was not checked", "`tunctl login "+name+"` logs in; doctor never does, so it cannot cause a failed login")
	}
}

func (e *examination) resolve(ctx context.Context, name string) (api.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return e.Resolve(ctx, name)
}

// agentHost is the state of the host in the agent.
func (e *examination) agentHost(name string) api.Host {
	for _, h := range e.status.Hosts {
		if h.Alias == name {
			return h
		}
	}
	return api.Host{State: api.HostDown}
}

// keys checks the keys for a login.
func (e *examination) keys(ctx context.Context, h, live api.Host) {
	found := []string{}
	for _, path := range append(slices.Clone(h.IdentityFiles), h.OwnKey) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case openToOthers(info):
			e.bad("key", fmt.Sprintf("%s is readable by others, so ssh does not use it", path), fmt.Sprintf("chmod 600 %q", path))
			return
		default:
			found = append(found, path)
		}
	}
	switch reached, err := dialSocket(ctx, e.AgentSocket); {
	case err != nil:
		e.bad("key", fmt.Sprintf("the ssh agent does not respond: %v", err), "restart the ssh agent, or log in to the desktop again, until `ssh-add -l` works")
		return
	case reached:
		found = append(found, "keys in the ssh agent")
	}
	switch {
	case len(found) == 0 && live.State == api.HostUp: // the agent found what we cannot see from here
		e.ok("key", "no key file or ssh agent found, and none needed: the host is connected")
	case len(found) == 0:
		e.unknown("key", "no key file and no ssh agent: you can log in only with a password or a one-time code", "`ssh-keygen` creates a key, if the site accepts keys")
	default:
		e.ok("key", "%s", strings.Join(found, ", "))
	}
}

// certificateSoon is when the end of a certificate is worth a word.
const certificateSoon = 30 * time.Minute

// certificate checks the end of the certificate that logged in, or of the file for the next
// login.
func (e *examination) certificate(name string, h, live api.Host) {
	ends, now := h.CertificateEnds, time.Now()
	if live.State == api.HostUp && !live.CertificateEnds.IsZero() {
		ends = live.CertificateEnds
	}
	at := ends.Format(time.DateTime)
	fix := "get a new one as your site describes; a command for that can be before_login in [host." + name + "] of the config"
	switch {
	case ends.IsZero():
	case !ends.After(now) && live.State == api.HostUp:
		e.unknown("certificate", "expired at "+at+"; the connection stays, but a lost one cannot be restored", fix)
	case !ends.After(now): // perhaps of another host
		e.unknown("certificate", "expired at "+at, fix)
	case ends.Sub(now) < certificateSoon:
		e.unknown("certificate", "expires at "+at+"; after that, a lost connection cannot be restored", fix)
	default:
		e.ok("certificate", "expires at %s", at)
	}
}

// dialSocket reports whether a server listens at path; "" is no error.
func dialSocket(ctx context.Context, path string) (bool, error) {
	if path == "" || !hasAgentSocket {
		return false, nil
	}
	c, err := (&net.Dialer{Timeout: checkTimeout}).DialContext(ctx, "unix", path)
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

// route checks each step to the host's port: its name, the port, the greeting and the host
// key. It reports whether a login could be tried.
func (e *examination) route(ctx context.Context, name string, h api.Host) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*checkTimeout)
	defer cancel()
	if net.ParseIP(h.Hostname) == nil {
		addresses, err := e.Lookup(ctx, h.Hostname)
		if err != nil {
			e.unreachable(ctx, "name", name, fmt.Errorf("cannot resolve the name %q: %w", h.Hostname, withoutServer(err)), e.spelling(name, h.Hostname)+networkFix)
			return false
		}
		e.ok("name", "%s is %s", h.Hostname, strings.Join(addresses, ", "))
	}
	seen, err := e.Preflight(ctx, name)
	if seen.Address == "" {
		e.unreachable(ctx, "port", name, err, networkFix)
		return false
	}
	e.ok("port", "%s responds", seen.Address)
	if seen.Greeting == "" {
		e.unreachable(ctx, "greeting", name, err, networkFix)
		return false
	}
	e.ok("greeting", "%s", seen.Greeting)
	return e.hostKey(seen, err)
}

func (e *examination) hostKey(seen PreflightResult, err error) bool {
	x, known := errors.AsType[*api.Error](err)
	switch {
	case err == nil:
		e.ok("host key", "%s is known", seen.HostKey)
	case known && x.Code == api.CodeNeedsPerson:
		e.unknown("host key", x.Message, x.Hint)
	default:
		e.failed("host key", err, "ask the site's support")
		return false
	}
	return true
}

const networkFix = "check the network and, if the site needs one, the VPN; open a web page to see whether a login portal blocks the connection"

// spelling is the advice for a name that cannot be resolved, if it is short and the ssh config
// gives it no other: DNS has few such names, so it was probably meant for the ssh config.
func (e *examination) spelling(name, hostname string) string {
	if name != hostname || strings.Contains(hostname, ".") {
		return ""
	}
	text := hostname + " may be misspelled, or an alias that is missing in your ssh config; "
	others := slices.DeleteFunc(slices.Clone(e.Names), func(name string) bool { return name == hostname })
	if near := suggest.Nearest(hostname, others); len(near) > 0 {
		return fmt.Sprintf("did you mean %s? %s", near[0], text)
	}
	return text
}

// unreachable reports that a host cannot be reached. The requirements of its site help
// more than the general advice in fix.
func (e *examination) unreachable(ctx context.Context, check, name string, err error, fix string) {
	if advice := e.Advice(ctx, name); advice != "" {
		e.bad(check, err.Error(), advice)
		return
	}
	e.failed(check, err, fix)
}

// jumpHost checks only the first hop: what is behind it needs a login.
func (e *examination) jumpHost(ctx context.Context, name string, h api.Host) {
	first, _, _ := strings.Cut(h.ProxyJump, ",")
	if first == "" || strings.EqualFold(first, "none") {
		e.unknown("port", "the host is reached through a ProxyCommand: "+h.ProxyCommand, "`tunctl login "+name+"` tries it")
		return
	}
	hop, err := e.resolve(ctx, first)
	if err != nil {
		e.failed("jump host", err, "`tunctl hosts "+first+"` shows its settings")
		return
	}
	e.ok("jump host", "the host is reached through %s", h.ProxyJump)
	if hop.ProxyJump != "" || hop.ProxyCommand != "" || e.route(ctx, first, hop) {
		e.unknown("port", "only a login shows what is behind the jump host", "`tunctl login "+name+"` tries it")
	}
}

// withoutServer removes the name server from an error.
func withoutServer(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	return err
}
