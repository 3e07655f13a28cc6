package configs

import (
	"cmp"
	"net"
	"strconv"

	"tunctl/internal/api"
)

// localPorts are the local ports of all sessions, to find those that are used twice.
type localPorts struct {
	src   *source
	first map[localPort]portUse
}

// localPort is a port of an interface; see interfaceOf. That of no interface is used first by
// any of them.
type localPort struct{ on, port string }

type portUse struct {
	at span
	by string // a table's title
}

// addSession adds every local port of a session.
func (p *localPorts) addSession(t *node, s Session) {
	if s.Local != 0 {
		p.add("127.0.0.1", strconv.Itoa(s.Local), t.byKey["local"].at, t.title())
	}
	for _, item := range t.get("forward").items {
		spec, err := ParseForward(item.text)
		if err != nil || spec.Kind == api.ForwardRemote || spec.PicksPort() {
			continue
		}
		if host, port, err := net.SplitHostPort(spec.Listen); err == nil { // else a unix socket
			p.add(host, port, item.at, t.title())
		}
	}
}

// add adds a use of a port, unless an earlier one excludes it.
func (p *localPorts) add(host, port string, at span, by string) {
	on, use := interfaceOf(host), portUse{at, by}
	first, taken := p.first[localPort{"any", port}]
	if on == "any" {
		first, taken = p.first[localPort{"", port}]
	} else if !taken {
		first, taken = p.first[localPort{on, port}]
	}
	switch {
	case !taken:
		p.first[localPort{on, port}] = use
		p.first[localPort{"", port}] = cmp.Or(p.first[localPort{"", port}], use)
	case first.by == by:
		p.src.addError(at, "", "%s uses local port %s twice, first on line %d", by, port, p.src.lineNumber(first.at))
	default:
		p.src.addError(at, "use a different port", "%s uses local port %s, which %s on line %d uses too",
			by, port, first.by, p.src.lineNumber(first.at))
	}
}

// interfaceOf is the same for all addresses of one interface.
func interfaceOf(host string) string {
	switch host {
	case "127.0.0.1", "::1", "localhost":
		return "loopback"
	case "", "0.0.0.0", "::":
		return "any"
	}
	return host
}
