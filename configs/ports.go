package configs

import (
	"net"
	"slices"
	"strconv"

	"tunctl/internal/api"
)

// localPorts are the local ports of all sessions, to find those that are used twice.
type localPorts struct {
	src    *source
	byPort map[string][]portUse
}

type portUse struct {
	host, port string
	at         span
	by         string // a table's title
}

// addSession adds every local port of a session.
func (p *localPorts) addSession(t *node, s Session) {
	if s.Local != 0 {
		p.add(portUse{"127.0.0.1", strconv.Itoa(s.Local), t.byKey["local"].at, t.title()})
	}
	if len(s.Forward) == 0 {
		return
	}
	for _, item := range t.byKey["forward"].items {
		spec, err := ParseForward(item.text)
		if err != nil || spec.Kind == api.ForwardRemote || spec.PicksPort() {
			continue
		}
		if host, port, err := net.SplitHostPort(spec.Listen); err == nil { // else a unix socket
			p.add(portUse{host, port, item.at, t.title()})
		}
	}
}

func (p *localPorts) add(c portUse) {
	others := p.byPort[c.port]
	i := slices.IndexFunc(others, c.collides)
	if i < 0 {
		p.byPort[c.port] = append(others, c)
		return
	}
	first := others[i]
	line := p.src.lineNumber(first.at)
	if first.by == c.by {
		p.src.addError(c.at, "", "%s uses local port %s twice, first on line %d", c.by, c.port, line)
		return
	}
	p.src.addError(c.at, "use a different port", "%s uses local port %s, which %s on line %d uses too",
		c.by, c.port, first.by, line)
}

// collides reports whether two uses of one port exclude each other.
func (c portUse) collides(other portUse) bool {
	a, b := interfaceOf(c.host), interfaceOf(other.host)
	return a == b || a == "any" || b == "any"
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
