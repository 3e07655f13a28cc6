package detect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// This file decides what to believe. The statements of a log about one server
// contradict each other. From the most to the least reliable:
//
//  1. The runtime file: the server writes it after it has bound its port, with the
//     token it compares against ([Finding.WithRuntime]).
//  2. A port on the login node: when the job opened a reverse tunnel, the server's
//     own address is of no use to anybody outside the node.
//  3. The server's own URL with a host that can be dialled: printed after binding,
//     so it has the port after retries.
//  4. The server's own loopback URL, for the port: Jupyter lets a site replace what
//     it displays (custom_display_url; NVIDIA's images print "http://hostname:8888"
//     whatever the port), but never its second, local URL.
//  5. The job's hint (`ssh -L 8888:node:8888`, "will listen on node:8888"), for the
//     name of the node, and for the port unless the log says that it was in use: the
//     hint was written before the server tried to bind.
//  6. The port of a URL without a usable host. 0.0.0.0 is as good as a name, since
//     the scheduler knows the node; the word "hostname" is not, since the port
//     beside it may be made up too.
//  7. A link in the job's instructions ("then open http://localhost:8888/?token=…"),
//     for the token: its address is one on the user's own machine.
//
// Of several servers, one that runs comes before one that ended, and the one that
// announced itself last before the others.

// resolve returns the finding of the best candidate.
func (e *evidence) resolve() Finding {
	all := e.candidates(true)
	if len(all) == 0 {
		return Finding{Why: "the log contains no server address", notes: slices.Clone(e.notes), Others: e.otherPages(nil, nil)}
	}
	best := slices.MinFunc(all, compareCandidates)
	best.Why = strings.Join(best.reasons, "; ")
	best.notes = slices.Clone(e.notes)
	best.Others = e.otherPages(best, all)
	return best.Finding
}

// candidates are the apps that the log may announce, each with its server that counts: those that were
// requested, or the others.
func (e *evidence) candidates(requested bool) []*candidate {
	var all []*candidate
	for _, app := range e.apps() {
		if c := newCandidate(e, app); e.wants(app) == requested && !c.empty() {
			c.locate()
			c.describe()
			all = append(all, c)
		}
	}
	if !requested {
		return dropCommand(all, "")
	}
	return dropCommand(all, e.only)
}

// dropCommand drops the program of a job of ours if its own announcement says more: what it
// is, or its token. If one app was requested, the program is that app.
func dropCommand(all []*candidate, only string) []*candidate {
	i := slices.IndexFunc(all, func(c *candidate) bool { return c.App == appCommand })
	if i < 0 || all[i].Ended && only == "" {
		return all
	}
	ours := all[i]
	if ours.Ended {
		ours.App = only
		return all
	}
	for _, c := range all {
		if c == ours || c.Ended || !c.sameServer(ours) || c.Guess && c.Token.IsZero() {
			continue
		}
		c.Guess = false
		c.Host, c.Reach, c.NeedsNode = ours.Host, ours.Reach, ours.NeedsNode // where it was told to listen
		if c.Token.IsZero() && c.Password.IsZero() {
			c.Exposure = ours.Exposure
		}
		return slices.Delete(all, i, i+1)
	}
	if only == "" {
		return all
	}
	if slices.ContainsFunc(all, func(c *candidate) bool { return c != ours && c.App == only && !c.Ended }) {
		return slices.Delete(all, i, i+1)
	}
	ours.App = only
	return all
}

// apps are those that some statement is about.
func (e *evidence) apps() []string {
	apps := slices.Collect(maps.Keys(e.servers))
	for _, h := range e.hints {
		apps = append(apps, e.appOfHint(h))
	}
	if e.reverse != nil {
		apps = append(apps, e.appOfReverse())
	}
	slices.Sort(apps)
	return slices.Compact(apps)
}

// candidate is one app that the log may announce: the statements about it, sorted by
// kind, and the finding that follows from them.
type candidate struct {
	Finding
	reasons []string // of Why

	server  *server
	hint    *statement // the best hint about this app
	reverse *statement // a reverse tunnel's port on the login node
	inUse   func(port int) bool
	end     *statement
	login   login

	display  *statement // own URL with a name
	wildcard *statement // own URL with every address
	loopback *statement // own URL with the loopback
	noHost   *statement // own URL with a placeholder as host, or none
	socket   *statement
	link     *statement // a URL of the instructions
}

// newCandidate collects the statements about app.
func newCandidate(e *evidence, app string) *candidate {
	c := newServerCandidate(e, cmp.Or(e.servers[app], &server{app: app}))
	if e.reverse != nil && e.appOfReverse() == app {
		c.reverse = e.reverse
	}
	c.hint = e.hintFor(app, c.ownPort())
	c.end = c.server.ended
	if c.end == nil && len(c.server.own) == 0 {
		c.end = e.jobEnd
	}
	return c
}

// newServerCandidate collects what a server printed.
func newServerCandidate(e *evidence, srv *server) *candidate {
	c := &candidate{server: srv, inUse: e.inUse, login: e.login}
	c.Found, c.App, c.Guess = true, srv.app, srv.app == appWeb || srv.app == ""
	for i := range srv.own {
		c.addOwn(&srv.own[i])
	}
	for i := range srv.links {
		c.addLink(&srv.links[i])
	}
	return c
}

// addOwn adds one of the server's own URLs. The first of a kind counts, since servers
// print the address meant for others before their own.
func (c *candidate) addOwn(s *statement) {
	slot := &c.noHost
	switch {
	case s.addr.socket != "":
		slot = &c.socket
	case s.addr.kind() == namedHost:
		slot = &c.display
	case s.addr.kind() == wildcardHost:
		slot = &c.wildcard
	case s.addr.kind() == loopbackHost:
		slot = &c.loopback
	}
	*slot = cmp.Or(*slot, s)
}

// addLink adds a link of the instructions. With a host name it is as good as the
// server's own URL: some sites print it instead of that.
func (c *candidate) addLink(s *statement) {
	if s.addr.kind() == namedHost && len(c.server.own) == 0 {
		c.addOwn(s)
		return
	}
	if c.link == nil || !c.link.addr.hasRealToken() && s.addr.hasRealToken() {
		c.link = s
	}
}

// ownPort is the port in the server's own URLs, or 0.
func (c *candidate) ownPort() int {
	for _, s := range []*statement{c.loopback, c.wildcard, c.display} {
		if s != nil && s.addr.port != 0 {
			return s.addr.port
		}
	}
	return 0
}

// empty reports whether no statement means that there is a server. A link to the
// user's own machine counts only with a token that can be a real one.
func (c *candidate) empty() bool {
	if cmp.Or(c.socket, c.reverse, c.display, c.wildcard, c.loopback, c.noHost, c.hint) != nil {
		return false
	}
	return c.link == nil || c.link.addr.port == 0 || !c.link.addr.hasRealToken()
}

// compareCandidates puts what the user most likely wants first.
func compareCandidates(a, b *candidate) int {
	return cmp.Or(
		cmp.Compare(a.tier(), b.tier()),
		cmp.Compare(appRank(a.App), appRank(b.App)),
		cmp.Compare(b.seq(), a.seq()),
	)
}

func (c *candidate) tier() int {
	switch {
	case c.Guess && c.App == "":
		return 3
	case c.Guess:
		return 2
	case c.Ended:
		return 1
	}
	return 0
}

// seq is the number of the last statement about the server.
func (c *candidate) seq() int {
	last := 0
	for _, s := range []*statement{c.display, c.wildcard, c.loopback, c.noHost, c.socket, c.hint, c.reverse, c.link} {
		if s != nil {
			last = max(last, s.seq)
		}
	}
	return last
}

// started is the number of the statement that announced the server.
func (c *candidate) started() int {
	if len(c.server.own) > 0 {
		return c.server.own[0].seq
	}
	return c.seq()
}

// displayMadeUp reports whether the displayed URL is not the server's: the loopback
// URL beside it has another port.
func (c *candidate) displayMadeUp() bool {
	return c.display != nil && c.loopback != nil && c.display.addr.port != c.loopback.addr.port
}

func (c *candidate) because(format string, args ...any) {
	c.reasons = append(c.reasons, fmt.Sprintf(format, args...))
}

// locate decides on the host, the port and the reach.
func (c *candidate) locate() {
	c.Reach = api.ReachLogin
	switch {
	case c.socket != nil:
		c.Socket, c.Reach, c.NeedsNode = c.socket.addr.socket, api.ReachNode, true
		c.because("a unix socket, from %s", c.socket.source())
	case c.reverse != nil:
		c.locateReverse()
	case c.display != nil && !c.displayMadeUp():
		c.Host, c.Port = c.display.addr.host, c.display.addr.port
		c.because("host and port from %s", c.display.source())
		if c.hint != nil && c.hint.addr.port != c.Port {
			c.because("port %d of %s is ignored: it was printed before the server had a port", c.hint.addr.port, c.hint.source())
		}
	default:
		c.locateHost()
		c.locatePort()
	}
}

// locateReverse uses the port on the login node, with the host printed beside it.
func (c *candidate) locateReverse() {
	c.Reach, c.Port, c.Host = api.ReachHere, c.reverse.addr.port, "localhost"
	for _, s := range []*statement{c.display, c.hint} {
		if s != nil && s.addr.port == c.Port {
			c.Host = s.addr.host
			break
		}
	}
	c.because("the job opened port %d on the login node, from %s", c.Port, c.reverse.source())
}

// locateHost decides on the host when the server's own URLs have no usable one.
func (c *candidate) locateHost() {
	bound := c.loopback
	if c.displayMadeUp() || c.noHost != nil || c.wildcard != nil || c.App == appStreamlit {
		bound = nil // the loopback URL is only the second of two addresses
	}
	printed := cmp.Or(c.wildcard, c.noHost, c.display, c.loopback, c.link)
	if bound != nil {
		c.Reach = api.ReachNode
	}
	switch {
	case c.hint != nil && c.hint.addr.kind() == namedHost:
		c.Host = c.hint.addr.host
		c.because("host from %s", c.hint.source())
		if bound != nil || c.hint.addr.onLoopback && c.wildcard == nil {
			c.Reach, c.NeedsNode = api.ReachNode, true
		}
	case printed != nil:
		c.Host, c.NeedsNode = printed.addr.host, true
		c.because("%s", unknownHost(printed, c.displayMadeUp()))
		if printed == c.link {
			c.Reach = api.ReachNode
		}
	}
	if bound != nil {
		c.because("bound to the node's loopback, from %s", bound.source())
	}
}

// unknownHost explains why the printed host cannot be dialled.
func unknownHost(s *statement, madeUp bool) string {
	switch {
	case madeUp:
		return s.source() + " shows a display address: the node comes from the scheduler"
	case s.addr.host == "":
		return s.source() + " names no host: the node comes from the scheduler"
	case s.addr.kind() == noHost:
		return fmt.Sprintf("%q in %s is not a host name: the node comes from the scheduler", s.addr.host, s.source())
	}
	return fmt.Sprintf("the log says %s: the server listens on its own node, whose name comes from the scheduler", s.addr.host)
}

// locatePort decides on the port when the server's own URLs have no usable host.
func (c *candidate) locatePort() {
	for _, s := range []*statement{c.loopback, c.wildcard, c.hint, c.noHost, c.link} {
		if s == nil || s.addr.port == 0 {
			continue
		}
		if s != c.loopback && s != c.wildcard && c.inUse(s.addr.port) {
			c.because("port %d of %s was in use, and the server tried another one", s.addr.port, s.source())
			if s == c.hint && c.noHost != nil {
				break // the port beside a made-up name is not the new one either
			}
			continue
		}
		c.Port = s.addr.port
		c.because("port from %s", s.source())
		return
	}
	c.Doubt = true
	c.because("the port is unknown: it is in the runtime file")
}

// describe decides on the scheme, the path and the token, and whether the server has
// ended.
func (c *candidate) describe() {
	best := cmp.Or(c.socket, c.display, c.wildcard, c.noHost, c.loopback, c.link, c.hint, c.reverse)
	if c.displayMadeUp() {
		best = c.loopback
	}
	c.Scheme, c.Path = cmp.Or(best.addr.scheme, "http"), cmp.Or(best.addr.path, "/")
	if c.App == appVNC && best.addr.scheme == "" {
		c.Scheme = "vnc"
	}
	if c.App == appRStudio {
		c.User, c.Password = c.login.user, c.login.password
	}
	hidden := c.findToken(best)
	if c.App == appJupyter {
		c.RuntimeFile = c.server.runtimeFile
		c.Doubt = c.Doubt || hidden || c.noHost != nil && c.loopback == nil || c.displayMadeUp() ||
			len(c.server.own) == 0 && c.display == nil
	} else if c.server.runtimeFile != "" {
		c.RuntimeFile, c.Doubt = c.server.runtimeFile, true // with the password
	}
	if c.Token.IsZero() && slices.ContainsFunc(c.server.own, func(s statement) bool { return s.open }) {
		c.Exposure = api.ExposureNode
	}
	if c.end != nil && c.end.seq > c.started() {
		c.Ended = true
		c.because("ended: %s", c.end.source())
	}
	if c.App == appTunnel && c.display != nil {
		c.Link = c.display.addr.link()
		c.Reach = ""
	}
}

// findToken takes the token of the best statement that has one. It reports whether
// there is one which the log hides.
func (c *candidate) findToken(best *statement) (hidden bool) {
	sources := []*statement{best}
	for i := range c.server.own {
		sources = append(sources, &c.server.own[i])
	}
	if c.link != nil {
		sources = append(sources, c.link)
	}
	for _, s := range sources {
		if s.addr.token != "" {
			c.Token = api.NewSecret(s.addr.token)
			c.because("token from %s", s.source())
			return false
		}
		hidden = hidden || s.addr.masked
	}
	if hidden {
		c.because("the server hides its token")
	}
	return hidden
}

// otherPages are the web pages that the log announces besides the best candidate's, each
// with a short name: that of its app, or the app's name and a number.
func (e *evidence) otherPages(best *candidate, all []*candidate) []Finding {
	all = slices.Concat(all, e.candidates(false), e.otherCandidates())
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(appRank(a.App), appRank(b.App)) })
	shown, pages := []*candidate{}, []Finding{}
	count := map[string]int{}
	if best != nil {
		shown, count[best.App] = append(shown, best), 1
	}
	for _, c := range all {
		known := slices.ContainsFunc(shown, func(o *candidate) bool { return o == c || o.sameServer(c) })
		if known || !c.isPage() || len(pages) == maxOthers {
			continue
		}
		shown = append(shown, c)
		count[c.App]++
		c.Name = c.App
		if n := count[c.App]; n > 1 {
			c.Name += "-" + strconv.Itoa(n)
		}
		c.Why = strings.Join(c.reasons, "; ")
		pages = append(pages, c.Finding)
	}
	return pages
}

// otherCandidates are the servers besides those of their apps that count, the oldest first.
func (e *evidence) otherCandidates() []*candidate {
	all := make([]*candidate, len(e.others))
	for i, o := range e.others {
		c := newServerCandidate(e, o)
		if h := e.hintFor(o.app, c.ownPort()); h != nil && h.addr.port == c.ownPort() {
			c.hint = h
		}
		c.locate()
		c.describe()
		all[i] = c
	}
	return all
}

// isPage reports whether the candidate is a page that a server itself announced, and that
// is not known to have ended.
func (c *candidate) isPage() bool {
	return len(c.server.own) > 0 && !c.Ended && c.Link == "" && strings.HasPrefix(c.Scheme, "http") && (c.Port != 0 || c.Socket != "")
}

// sameServer reports whether two candidates are one server, which two forms of line
// announced.
func (c *candidate) sameServer(o *candidate) bool {
	named := !c.NeedsNode && !o.NeedsNode && c.Reach != api.ReachHere && o.Reach != api.ReachHere
	return c.Port == o.Port && c.Socket == o.Socket && (!named || c.Host == o.Host)
}
