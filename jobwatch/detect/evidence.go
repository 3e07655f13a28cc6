package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Bounds of what is remembered of a log of any length.
const (
	maxOwn        = 8
	maxLinks      = 4
	maxHints      = 8
	maxPortsInUse = 64
	maxOthers     = 8
	maxGap        = 20 // lines between two announcements of one server, at most
)

// evidence is what a log said about servers, in bounded memory.
type evidence struct {
	only       string // the requested app, or "" for any
	seq        int
	servers    map[string]*server // by app
	others     []*server          // besides those of their apps that count: earlier ones, or started at the same time; none is known to have ended
	hints      []statement        // of the job script, about where a server will be
	reverse    *statement         // a port that the job opened on the login node
	portsInUse []statement
	jobEnd     *statement
	login      login // for RStudio's login page
	notes      noteList
}

// server is one run of an app's server: what was said about it since it started.
type server struct {
	app           string
	own           []statement // the server's own URLs
	links         []statement // URLs of instructions
	ended         *statement
	runtimeFile   string
	runtimeFileAt position
	lastAt        position // where it last printed an address
	announcing    bool     // it printed the heading of an announcement
}

// statement is what one line says about a server.
type statement struct {
	at      position
	seq     int // its number, over all streams
	app     string
	addr    address
	desc    string // what the line is, for the user
	open    bool   // the page asks for no token or password
	leadsTo int    // of a reverse tunnel, the port it leads to
}

// position is a line of a log.
type position struct {
	stream string // the name of the file, if there are several
	line   int
}

func (p position) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s line %d", p.stream, p.line))
}

// source names the statement in a reason.
func (s *statement) source() string { return fmt.Sprintf("%s (%s)", s.desc, s.at) }

// wants reports whether an app was requested. A statement about no particular app
// may be about the requested one, and so is that of a job of ours about the user's program.
func (e *evidence) wants(app string) bool {
	return e.only == "" || app == "" || app == e.only || app == appCommand && servesPage(e.only)
}

func (e *evidence) server(app string) *server {
	srv := e.servers[app]
	if srv == nil {
		srv = &server{app: app}
		e.servers[app] = srv
	}
	return srv
}

// announced reports whether a server of the app has printed an address.
func (e *evidence) announced(app string) bool {
	srv := e.servers[app]
	return srv != nil && len(srv.own) > 0
}

// stamp numbers a statement, and copies it out of the line it was read from.
func (e *evidence) stamp(s statement) statement {
	e.seq++
	s.seq = e.seq
	s.addr = s.addr.clone()
	return s
}

// found notes an address, which only counts of a requested app.
func (e *evidence) found(s statement, more string) {
	if e.wants(s.app) {
		e.notes.found(s, more)
	} else {
		e.notes.ignored(s, "not the requested app")
	}
}

// appendNew adds a statement to a list of at most most, if its address is new there.
func (e *evidence) appendNew(list []statement, most int, s statement) []statement {
	if len(list) >= most || slices.ContainsFunc(list, func(o statement) bool { return o.addr == s.addr }) {
		return list
	}
	e.found(s, "")
	return append(list, s)
}

// addOwn adds an address that the server itself printed.
func (e *evidence) addOwn(s statement) {
	s = e.stamp(s)
	srv := e.server(s.app)
	switch {
	case srv.replacedBy(s):
		e.found(s, "a newer server: the last one in the log counts")
		if srv.ended == nil {
			e.addOther(srv)
		}
		srv = &server{app: s.app, runtimeFile: srv.runtimeFile, runtimeFileAt: srv.runtimeFileAt}
		if srv.runtimeFileAt.line < s.at.line-maxGap {
			srv.runtimeFile = ""
		}
		e.servers[s.app] = srv
	case srv.isBeside(s):
		e.addOther(&server{app: s.app, own: []statement{s}})
	}
	srv.announcing, srv.lastAt = false, s.at
	srv.own = e.appendNew(srv.own, maxOwn, s)
}

// isBeside reports whether s announces another server that started at the same time: it
// is the same kind of address with another port. Jupyter begins each announcement with a
// heading, and may display a port that is not its own.
func (srv *server) isBeside(s statement) bool {
	samePort := func(o statement) bool { return o.addr.port == s.addr.port && o.addr.socket == s.addr.socket }
	sameKind := func(o statement) bool { return o.addr.kind() == s.addr.kind() }
	return s.app != appJupyter && !slices.ContainsFunc(srv.own, samePort) && slices.ContainsFunc(srv.own, sameKind)
}

// addOther keeps a server besides the one of its app that counts, in place of what was
// known at the same address.
func (e *evidence) addOther(srv *server) {
	e.others = slices.DeleteFunc(e.others, func(o *server) bool {
		return slices.ContainsFunc(o.own, func(x statement) bool {
			return slices.ContainsFunc(srv.own, func(y statement) bool { return x.addr.sameServer(y.addr) })
		})
	})
	if len(e.others) == maxOthers {
		e.others = slices.Delete(e.others, 0, 1)
	}
	e.others = append(e.others, srv)
}

// replacedBy reports whether s announces a new server rather than another address of
// this one.
func (srv *server) replacedBy(s statement) bool {
	if srv.ended != nil {
		return true
	}
	if len(srv.own) == 0 {
		return false
	}
	for _, o := range srv.own {
		if o.addr.port == s.addr.port && o.addr.socket == s.addr.socket && (o.addr.token == s.addr.token || s.addr.token == "") {
			return false
		}
	}
	return srv.announcing || srv.lastAt.stream == s.at.stream && s.at.line-srv.lastAt.line > maxGap
}

// addLink adds a URL of the job's instructions.
func (e *evidence) addLink(s statement) {
	if !e.wants(s.app) {
		return
	}
	s = e.stamp(s)
	srv := e.server(s.app)
	if srv.ended != nil && srv.ended.at.stream == s.at.stream {
		srv = &server{app: s.app}
		e.servers[s.app] = srv
	}
	srv.links = e.appendNew(srv.links, maxLinks, s)
}

// addHint adds what the job script says about where the server will be.
func (e *evidence) addHint(s statement) {
	s.app = cmp.Or(s.app, e.only)
	if s.addr.port == 0 {
		return
	}
	if !e.wants(s.app) {
		e.notes.ignored(s, "not about the requested app")
		return
	}
	s = e.stamp(s)
	e.dropEnded(s)
	if i := slices.IndexFunc(e.hints, func(o statement) bool { return o.addr == s.addr }); i >= 0 {
		e.hints[i].app = cmp.Or(e.hints[i].app, s.app)
		e.hints[i].seq = s.seq
		return
	}
	if len(e.hints) == maxHints {
		e.hints = slices.Delete(e.hints, 0, 1)
	}
	e.hints = append(e.hints, s)
	e.notes.found(s, "")
}

// dropEnded drops what came before a hint that follows the end of a server: the job
// was requeued, or a loop starts the next server.
func (e *evidence) dropEnded(hint statement) {
	before := func(end *statement) bool { return end != nil && end.at.stream == hint.at.stream }
	ended := before(e.jobEnd)
	for app, srv := range e.servers {
		if before(srv.ended) && (hint.app == "" || hint.app == app) {
			delete(e.servers, app)
			ended = true
		}
	}
	if ended {
		e.jobEnd, e.reverse, e.hints, e.portsInUse = nil, nil, nil, nil
	}
}

// addReverse adds a port that the job opened on the login node.
func (e *evidence) addReverse(s statement) {
	s.app = cmp.Or(s.app, e.only)
	if e.wants(s.app) {
		s = e.stamp(s)
		e.reverse = &s
		e.notes.found(s, "")
	}
}

// addPortInUse adds a port that another process listens on.
func (e *evidence) addPortInUse(s statement) {
	if len(e.portsInUse) < maxPortsInUse {
		e.portsInUse = append(e.portsInUse, e.stamp(s))
		e.notes.found(s, "")
	}
}

func (e *evidence) inUse(port int) bool {
	return slices.ContainsFunc(e.portsInUse, func(s statement) bool { return s.addr.port == port })
}

// addFailure means that a server could not start. After the server announced itself,
// such a line is about something else.
func (e *evidence) addFailure(s statement) {
	if srv := e.servers[s.app]; srv == nil || len(srv.own) == 0 || srv.ended != nil {
		e.addEnd(s)
	}
}

// addEnd means that a server stops.
func (e *evidence) addEnd(s statement) {
	s = e.stamp(s)
	if srv := e.server(s.app); srv.ended == nil {
		srv.ended = &s
		if e.wants(s.app) {
			e.notes.found(s, "")
		}
	}
}

// addJobEnd means that the job is over, and all its servers with it.
func (e *evidence) addJobEnd(s statement) {
	s = e.stamp(s)
	e.jobEnd = &s
	for _, srv := range e.servers {
		srv.ended = cmp.Or(srv.ended, &s)
	}
	e.others = nil
	e.notes.found(s, "")
}

// setLogin notes what RStudio's login page asks for. The last one counts.
func (e *evidence) setLogin(in login) {
	e.login = in
	e.notes.add(note{at: in.at, text: "the password for RStudio's login page"})
}

// setRuntimeFile notes where a server's runtime file is.
func (e *evidence) setRuntimeFile(app, path string, at position) {
	if !e.wants(app) {
		return
	}
	srv := e.server(app)
	srv.runtimeFile, srv.runtimeFileAt = path, at
	e.notes.add(note{at: at, text: "the runtime file: " + path})
}

// appOfHint is the app that a hint is about: the one that announced itself on the
// port, or the one that the lines nearby name.
func (e *evidence) appOfHint(h statement) string { return cmp.Or(e.appOn(h.addr.port), h.app) }

// appOfReverse is the app that the reverse tunnel leads to.
func (e *evidence) appOfReverse() string { return cmp.Or(e.appOn(e.reverse.leadsTo), e.reverse.app) }

// appOn is the requested app that announced itself on a port, or "".
func (e *evidence) appOn(port int) string {
	for _, app := range appsByRank {
		if srv := e.servers[app]; srv != nil && e.wants(app) && slices.ContainsFunc(srv.own, func(o statement) bool { return port != 0 && o.addr.port == port }) {
			return app
		}
	}
	return ""
}

// hintFor is the best hint about an app that listens on port, if that is known: one
// that has this port, else the last one. A hint about an unknown app counts if its
// port was in use, since the server then took another.
func (e *evidence) hintFor(app string, port int) *statement {
	var best *statement
	for i := range e.hints {
		h := &e.hints[i]
		about := e.appOfHint(*h)
		mine := about == app || about == "" && (port == 0 || h.addr.port == port || e.inUse(h.addr.port))
		if !mine || app == "" && about != "" {
			continue
		}
		if best == nil || h.rank(port) >= best.rank(port) {
			best = h
		}
	}
	return best
}

// rank orders hints: first those that name a node, then those that have the port.
func (s *statement) rank(port int) int {
	n := 0
	if s.addr.kind() == namedHost {
		n += 2
	}
	if s.addr.port == port {
		n++
	}
	return n
}

// drop drops what was read from some lines.
func (e *evidence) drop(gone func(position) bool) {
	isGone := func(s statement) bool { return gone(s.at) }
	unlessGone := func(s *statement) *statement {
		if s == nil || gone(s.at) {
			return nil
		}
		return s
	}
	e.hints = slices.DeleteFunc(e.hints, isGone)
	e.portsInUse = slices.DeleteFunc(e.portsInUse, isGone)
	e.reverse, e.jobEnd = unlessGone(e.reverse), unlessGone(e.jobEnd)
	if gone(e.login.at) {
		e.login = login{}
	}
	for _, srv := range e.servers {
		srv.own = slices.DeleteFunc(srv.own, isGone)
		srv.links = slices.DeleteFunc(srv.links, isGone)
		srv.ended = unlessGone(srv.ended)
		if gone(srv.runtimeFileAt) {
			srv.runtimeFile, srv.runtimeFileAt = "", position{}
		}
	}
	e.others = slices.DeleteFunc(e.others, func(o *server) bool {
		o.own = slices.DeleteFunc(o.own, isGone)
		return len(o.own) == 0
	})
	e.notes = slices.DeleteFunc(e.notes, func(n note) bool { return gone(n.at) })
}
