package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// This file is the order of belief. A log says several things about one server,
// and they disagree; from the most to the least believed:
//
//  1. The runtime file: the server writes it after it has bound its port, with the
//     token it compares against ([Finding.WithRuntime]).
//  2. A port on the login node: when the job opened a reverse tunnel, the server's
//     own address is of no use to anybody outside the node.
//  3. The server's own URL with a name that can be dialled: printed after binding,
//     so it knows of port retries.
//  4. The server's own loopback URL, for the port: Jupyter lets a site replace what
//     it displays (custom_display_url; NVIDIA's images print "http://hostname:8888"
//     whatever the port), but never its second, local URL.
//  5. The job's hint (`ssh -L 8888:node:8888`, "will listen on node:8888"), for the
//     name of the node, and for the port as long as nobody said that it was taken:
//     it was written before the server tried to bind.
//  6. The port of a URL without a usable name. 0.0.0.0 is as good as a name, since
//     the scheduler knows the node; the word "hostname" is not, since the port
//     beside it may be made up too.
//  7. A link in the job's instructions ("then open http://localhost:8888/?token=…"),
//     for the token: its address is one on the person's own machine.
//
// Between servers: one that runs is believed over one that ended, and the last that
// announced itself over those before it.

// verdict is a finding in the making: where each part of it comes from.
type verdict struct {
	Finding
	reasons []string
	seq     int
}

func (v *verdict) because(format string, args ...any) {
	v.reasons = append(v.reasons, fmt.Sprintf(format, args...))
}

// judge weighs all evidence and returns what to believe.
func (e *evidence) judge() Finding {
	var all []*verdict
	for _, app := range e.suspects() {
		if v := e.try(app); v != nil {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return Finding{Why: "the log contains no server address", Notes: e.notes.list()}
	}
	best := slices.MinFunc(all, compareVerdicts)
	best.Why = strings.Join(best.reasons, "; ")
	best.Notes = e.notes.list()
	return best.Finding
}

// suspects are the apps that the evidence speaks of.
func (e *evidence) suspects() []string {
	var apps []string
	for app := range e.runs {
		apps = append(apps, app)
	}
	for _, h := range e.hints {
		apps = append(apps, e.appOfHint(h))
	}
	if e.here != nil {
		apps = append(apps, e.appOfHere())
	}
	slices.Sort(apps)
	return slices.Compact(apps)
}

// compareVerdicts puts what a person most likely came for first.
func compareVerdicts(a, b *verdict) int {
	return cmp.Or(
		cmp.Compare(a.tier(), b.tier()),
		cmp.Compare(appRank(a.App), appRank(b.App)),
		cmp.Compare(b.seq, a.seq),
	)
}

func (v *verdict) tier() int {
	switch {
	case v.Low && v.App == "":
		return 3
	case v.Low:
		return 2
	case v.Ended:
		return 1
	}
	return 0
}

// try makes the case for one app, or returns nil if there is none.
func (e *evidence) try(app string) *verdict {
	c := newSuit(e, app)
	if c.empty() {
		return nil
	}
	v := &verdict{seq: c.seq()}
	v.Found = true
	v.App = app
	v.Low = app == appWeb || app == ""
	c.locate(v)
	c.describe(v)
	c.close(v)
	return v
}

// locate decides on the host, the port and the reach.
func (c *suit) locate(v *verdict) {
	v.Reach = api.ReachLogin
	switch {
	case c.socket != nil:
		v.Socket, v.Reach, v.NeedsNode = c.socket.to.socket, api.ReachNode, true
		v.because("a unix socket, from %s", c.socket.source())
	case c.here != nil:
		c.locateHere(v)
	case c.display != nil && !c.displayLies():
		v.Host, v.Port = c.display.to.host, c.display.to.port
		v.because("host and port from %s", c.display.source())
		if c.hint != nil && c.hint.to.port != v.Port {
			v.because("port %d of %s is ignored: it was printed before the server had a port", c.hint.to.port, c.hint.source())
		}
	default:
		c.locateHost(v)
		c.locatePort(v)
	}
}

// locateHere uses the port on the login node, with the host named beside it.
func (c *suit) locateHere(v *verdict) {
	v.Reach, v.Port, v.Host = api.ReachHere, c.here.to.port, "localhost"
	for _, s := range []*sighting{c.display, c.hint} {
		if s != nil && s.to.port == v.Port {
			v.Host = s.to.host
			break
		}
	}
	v.because("the job opened port %d on the login node, from %s", v.Port, c.here.source())
}

// locateHost decides on the host when the server's own URLs have no usable name.
func (c *suit) locateHost(v *verdict) {
	bound := c.local
	if c.displayLies() || c.blank != nil || c.wild != nil || c.app == appStreamlit {
		bound = nil // the loopback URL is only the second of two addresses
	}
	printed := firstOf(c.wild, c.blank, c.display, c.local, c.link)
	if bound != nil {
		v.Reach = api.ReachNode
	}
	switch {
	case c.hint != nil && c.hint.to.place() == named:
		v.Host = c.hint.to.host
		v.because("host from %s", c.hint.source())
		if bound != nil || c.hint.to.inner && c.wild == nil {
			v.Reach, v.NeedsNode = api.ReachNode, true
		}
	case printed != nil:
		v.Host, v.NeedsNode = printed.to.host, true
		v.because("%s", unknownHost(printed, c.displayLies()))
		if printed == c.link {
			v.Reach = api.ReachNode
		}
	}
	if bound != nil {
		v.because("bound to the node's loopback, from %s", bound.source())
	}
}

// unknownHost says why the printed host cannot be dialled.
func unknownHost(s *sighting, lies bool) string {
	switch {
	case lies:
		return s.source() + " shows a display address: the node comes from the scheduler"
	case s.to.host == "":
		return s.source() + " names no host: the node comes from the scheduler"
	case s.to.place() == nowhere:
		return fmt.Sprintf("%q in %s is not a host name: the node comes from the scheduler", s.to.host, s.source())
	}
	return fmt.Sprintf("%q in %s means the node itself: its name comes from the scheduler", s.to.host, s.source())
}

// locatePort decides on the port when the server's own URLs have no usable name.
func (c *suit) locatePort(v *verdict) {
	for _, s := range []*sighting{c.local, c.wild} {
		if s != nil && s.to.port != 0 {
			v.Port = s.to.port
			v.because("port from %s", s.source())
			return
		}
	}
	for _, s := range []*sighting{c.hint, c.blank, c.link} {
		if s == nil || s.to.port == 0 {
			continue
		}
		if c.taken(s.to.port) {
			v.because("port %d of %s was in use, and the server tried another one", s.to.port, s.source())
			if s == c.hint && c.blank != nil {
				break // what is printed beside a made-up name says nothing of the new port
			}
			continue
		}
		v.Port = s.to.port
		v.because("port from %s", s.source())
		return
	}
	v.Doubt = true
	v.because("the port is unknown: it is in the runtime file")
}

// describe decides on the scheme, the path and the token.
func (c *suit) describe(v *verdict) {
	best := firstOf(c.socket, c.display, c.wild, c.blank, c.local)
	if c.displayLies() {
		best = c.local
	}
	if best == nil {
		best = firstOf(c.link, c.hint, c.here)
	}
	v.Scheme, v.Path = cmp.Or(best.to.scheme, "http"), cmp.Or(best.to.path, "/")
	if c.app == appVNC && best.to.scheme == "" {
		v.Scheme = "vnc"
	}
	masked := false
	for _, s := range c.tellers(best) {
		masked = masked || s.to.masked
		if s.to.token != "" {
			v.Token = api.NewSecret(s.to.token)
			v.because("token from %s", s.source())
			break
		}
	}
	if masked && v.Token.IsZero() {
		v.because("the server hides its token")
	}
	if c.app == appJupyter {
		v.RuntimeFile = c.run.runtime
		v.Doubt = v.Doubt || masked && v.Token.IsZero() || c.blank != nil && c.local == nil || c.displayLies() ||
			len(c.run.own) == 0 && c.display == nil
	}
}

// close tells whether the server is still there.
func (c *suit) close(v *verdict) {
	if c.end != nil && c.end.seq > c.lastStart() {
		v.Ended = true
		v.because("ended: %s", c.end.source())
	}
	if c.app == appTunnel && c.display != nil {
		v.Link = c.display.to.link()
		v.Reach = ""
	}
}

// suit is the evidence about one app, sorted by what it is worth.
type suit struct {
	app   string
	run   *run
	hint  *sighting // the best hint about this app
	here  *sighting // a reverse tunnel's port on the login node
	taken func(port int) bool
	end   *sighting

	display *sighting // own URL with a name
	wild    *sighting // own URL with every address
	local   *sighting // own URL with the loopback
	blank   *sighting // own URL with a word in place of the host, or none
	socket  *sighting
	link    *sighting // a URL of the instructions
}

// newSuit gathers the evidence about app.
func newSuit(e *evidence, app string) *suit {
	c := &suit{app: app, run: e.runs[app], taken: e.isTaken}
	if c.run == nil {
		c.run = &run{}
	}
	if e.here != nil && e.appOfHere() == app {
		c.here = e.here
	}
	for i := range c.run.own {
		c.sort(&c.run.own[i])
	}
	for i := range c.run.links {
		c.sortLink(&c.run.links[i])
	}
	c.hint = e.hintFor(app, c.ownPort())
	c.end = c.run.ended
	if c.end == nil && len(c.run.own) == 0 {
		c.end = e.jobEnd
	}
	return c
}

// sort puts one of the server's own URLs in its place; the first of a kind wins,
// since servers print the address meant for others before their own.
func (c *suit) sort(s *sighting) {
	slot := &c.blank
	switch {
	case s.to.socket != "":
		slot = &c.socket
	case s.to.place() == named:
		slot = &c.display
	case s.to.place() == wildcard:
		slot = &c.wild
	case s.to.place() == loopback:
		slot = &c.local
	}
	if *slot == nil {
		*slot = s
	}
}

// sortLink takes a link of the instructions: with a name of its own it is as good
// as the server's own URL, as where a site prints it in the server's place.
func (c *suit) sortLink(s *sighting) {
	if s.to.place() == named && len(c.run.own) == 0 {
		c.sort(s)
		return
	}
	if c.link == nil || !c.link.to.hasRealToken() && s.to.hasRealToken() {
		c.link = s
	}
}

// ownPort is the port the server itself tells, or 0.
func (c *suit) ownPort() int {
	for _, s := range []*sighting{c.local, c.wild, c.display} {
		if s != nil && s.to.port != 0 {
			return s.to.port
		}
	}
	return 0
}

// empty reports whether nothing here says that there is a server. A link to the
// person's own machine counts only with a token that could be one.
func (c *suit) empty() bool {
	if c.socket != nil || c.here != nil || c.display != nil || c.wild != nil || c.local != nil || c.blank != nil || c.hint != nil {
		return false
	}
	return c.link == nil || c.link.to.port == 0 || !c.link.to.hasRealToken()
}

// seq is when the server was last heard of.
func (c *suit) seq() int {
	last := 0
	for _, s := range []*sighting{c.display, c.wild, c.local, c.blank, c.socket, c.hint, c.here, c.link} {
		if s != nil {
			last = max(last, s.seq)
		}
	}
	return last
}

// displayLies reports whether the displayed URL was made up: the local URL beside
// it tells another port.
func (c *suit) displayLies() bool {
	return c.display != nil && c.local != nil && c.display.to.port != c.local.to.port
}

// tellers are those who may tell the token, the best first.
func (c *suit) tellers(best *sighting) []*sighting {
	tellers := []*sighting{best}
	for i := range c.run.own {
		tellers = append(tellers, &c.run.own[i])
	}
	if c.link != nil {
		tellers = append(tellers, c.link)
	}
	return tellers
}

// lastStart is when the server was last said to be there.
func (c *suit) lastStart() int {
	if len(c.run.own) > 0 {
		return c.run.own[0].seq
	}
	return c.seq()
}

func firstOf(all ...*sighting) *sighting {
	for _, s := range all {
		if s != nil {
			return s
		}
	}
	return nil
}
