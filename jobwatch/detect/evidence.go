package detect

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of what is remembered of a log of any length.
const (
	maxOwn   = 8
	maxLinks = 4
	maxHints = 8
	maxTaken = 64
	farApart = 20 // lines between two announcements of one server, at most
)

// spot is a place in a log.
type spot struct {
	stream string // the name of the file, where there are several
	line   int
}

// sighting is something a line said about a server.
type sighting struct {
	at   spot
	seq  int // when it was read, over all streams
	app  string
	to   target
	said string // what the line is, for a person
	into int    // of a reverse tunnel, the port it leads to
}

// source names the sighting in a reason.
func (s *sighting) source() string {
	if s.at.stream != "" {
		return fmt.Sprintf("%s (%s line %d)", s.said, s.at.stream, s.at.line)
	}
	return fmt.Sprintf("%s (line %d)", s.said, s.at.line)
}

// run is one life of one server: what it and others said since it started.
type run struct {
	own       []sighting // the server's own URLs
	links     []sighting // URLs of instructions
	ended     *sighting
	runtime   string
	runtimeAt spot
	heard     spot // where it last told an address
	beginning bool // it said that it is about to say where it is
}

// evidence is everything a log said that matters, in bounded memory.
type evidence struct {
	only   string
	seq    int
	runs   map[string]*run
	hints  []sighting
	here   *sighting
	taken  []sighting
	jobEnd *sighting
	notes  notebook
}

func newEvidence(only string) *evidence {
	return &evidence{only: only, runs: map[string]*run{}}
}

// wants reports whether anybody asked for this app.
func (e *evidence) wants(app string) bool { return e.only == "" || app == "" || app == e.only }

func (e *evidence) run(app string) *run {
	r := e.runs[app]
	if r == nil {
		r = &run{}
		e.runs[app] = r
	}
	return r
}

// stamp numbers a sighting, and frees it from the line it was read from.
func (e *evidence) stamp(s sighting) sighting {
	e.seq++
	s.seq = e.seq
	s.to = s.to.clone()
	return s
}

// begin notes that a server is about to announce itself.
func (e *evidence) begin(app string) {
	if e.wants(app) {
		e.run(app).beginning = true
	}
}

// announce takes a server's own word.
func (e *evidence) announce(s sighting) {
	if !e.wants(s.app) {
		e.notes.pass(s, "not the requested app")
		return
	}
	s = e.stamp(s)
	r := e.run(s.app)
	if r.succeededBy(s) {
		e.notes.find(s, "a newer server: the last one in the log counts")
		r = &run{runtime: r.runtime, runtimeAt: r.runtimeAt}
		if r.runtimeAt.line < s.at.line-farApart {
			r.runtime = ""
		}
		e.runs[s.app] = r
	}
	r.beginning, r.heard = false, s.at
	if len(r.own) < maxOwn && !slices.ContainsFunc(r.own, func(o sighting) bool { return o.to == s.to }) {
		r.own = append(r.own, s)
		e.notes.find(s, "")
	}
}

// succeededBy reports whether s announces a new server rather than another
// address of the one that runs.
func (r *run) succeededBy(s sighting) bool {
	if r.ended != nil {
		return true
	}
	if len(r.own) == 0 {
		return false
	}
	for _, o := range r.own {
		if o.to.port == s.to.port && o.to.socket == s.to.socket && (o.to.token == s.to.token || s.to.token == "") {
			return false
		}
	}
	return r.beginning || r.heard.stream == s.at.stream && s.at.line-r.heard.line > farApart
}

// link takes a URL of the job's instructions.
func (e *evidence) link(s sighting) {
	if !e.wants(s.app) {
		return
	}
	s = e.stamp(s)
	r := e.run(s.app)
	if r.ended != nil && r.ended.at.stream == s.at.stream {
		r = &run{}
		e.runs[s.app] = r
	}
	if len(r.links) < maxLinks && !slices.ContainsFunc(r.links, func(o sighting) bool { return o.to == s.to }) {
		r.links = append(r.links, s)
		e.notes.find(s, "")
	}
}

// hint takes what the job script says about where the server will be.
func (e *evidence) hint(s sighting) {
	if e.only != "" && s.app == "" {
		s.app = e.only
	}
	if s.to.port == 0 {
		return
	}
	if !e.wants(s.app) {
		e.notes.pass(s, "not about the requested app")
		return
	}
	s = e.stamp(s)
	e.forgetEnded(s)
	if i := slices.IndexFunc(e.hints, func(o sighting) bool { return o.to == s.to }); i >= 0 {
		e.hints[i].app = cmp.Or(e.hints[i].app, s.app)
		e.hints[i].seq = s.seq
		return
	}
	if len(e.hints) == maxHints {
		e.hints = slices.Delete(e.hints, 0, 1)
	}
	e.hints = append(e.hints, s)
	e.notes.find(s, "")
}

// forgetEnded drops what came before a hint that follows the end of a server: the
// job was requeued, or a loop starts the next one.
func (e *evidence) forgetEnded(s sighting) {
	fresh := func(end *sighting) bool { return end != nil && end.at.stream == s.at.stream }
	ended := fresh(e.jobEnd)
	for app, r := range e.runs {
		if fresh(r.ended) && (s.app == "" || s.app == app) {
			delete(e.runs, app)
			ended = true
		}
	}
	if ended {
		e.jobEnd, e.here, e.hints, e.taken = nil, nil, nil, nil
	}
}

// reverse takes a port that the job opened on the login node.
func (e *evidence) reverse(s sighting) {
	if e.only != "" && s.app == "" {
		s.app = e.only
	}
	if e.wants(s.app) {
		s = e.stamp(s)
		e.here = &s
		e.notes.find(s, "")
	}
}

// take notes that a port is in use by somebody else.
func (e *evidence) take(s sighting) {
	if len(e.taken) < maxTaken {
		e.taken = append(e.taken, e.stamp(s))
		e.notes.find(s, "")
	}
}

func (e *evidence) isTaken(port int) bool {
	return slices.ContainsFunc(e.taken, func(s sighting) bool { return s.to.port == port })
}

// fail takes a server's word that it could not start. Said after it announced
// itself, it is about something else.
func (e *evidence) fail(s sighting) {
	if r := e.runs[s.app]; r == nil || len(r.own) == 0 || r.ended != nil {
		e.end(s)
	}
}

// end takes a server's word that it stops.
func (e *evidence) end(s sighting) {
	if !e.wants(s.app) {
		return
	}
	s = e.stamp(s)
	r := e.run(s.app)
	if r.ended == nil {
		r.ended = &s
		e.notes.find(s, "")
	}
}

// endJob takes the scheduler's word that the job is over.
func (e *evidence) endJob(s sighting) {
	s = e.stamp(s)
	e.jobEnd = &s
	for _, r := range e.runs {
		if r.ended == nil {
			r.ended = &s
		}
	}
	e.notes.find(s, "")
}

// appOfHint is which app a hint is about: the one that announced itself on the
// port, or the one spoken of nearby.
func (e *evidence) appOfHint(h sighting) string { return cmp.Or(e.appOn(h.to.port), h.app) }

// appOfHere is likewise which app a reverse tunnel leads to.
func (e *evidence) appOfHere() string { return cmp.Or(e.appOn(e.here.into), e.here.app) }

// appOn is the app that announced itself on a port, or "".
func (e *evidence) appOn(port int) string {
	for _, app := range appsByRank {
		if r := e.runs[app]; r != nil && slices.ContainsFunc(r.own, func(o sighting) bool { return port != 0 && o.to.port == port }) {
			return app
		}
	}
	return ""
}

// hintFor is the best hint about an app that listens on port, if that is known:
// one that agrees on the port, else the last one. A hint whose app is unknown
// counts for a server that moved away from its port.
func (e *evidence) hintFor(app string, port int) *sighting {
	var best *sighting
	for i := range e.hints {
		h := &e.hints[i]
		about := e.appOfHint(*h)
		mine := about == app || about == "" && (port == 0 || h.to.port == port || e.isTaken(h.to.port))
		if !mine || app == "" && about != "" {
			continue
		}
		if best == nil || h.rank(port) >= best.rank(port) {
			best = h
		}
	}
	return best
}

// rank orders hints: those that name a node, then those that agree on the port.
func (s *sighting) rank(port int) int {
	n := 0
	if s.to.place() == named {
		n += 2
	}
	if s.to.port == port {
		n++
	}
	return n
}

// retract takes back what was read from a line that turned out to be a part of a
// longer one.
func (e *evidence) retract(at spot) { e.drop(func(o spot) bool { return o == at }) }

// forget takes back everything that a stream said.
func (e *evidence) forget(stream string) { e.drop(func(o spot) bool { return o.stream == stream }) }

func (e *evidence) drop(gone func(spot) bool) {
	said := func(s sighting) bool { return gone(s.at) }
	only := func(s *sighting) *sighting {
		if s == nil || said(*s) {
			return nil
		}
		return s
	}
	e.hints = slices.DeleteFunc(e.hints, said)
	e.taken = slices.DeleteFunc(e.taken, said)
	e.here, e.jobEnd = only(e.here), only(e.jobEnd)
	for _, r := range e.runs {
		r.own = slices.DeleteFunc(r.own, said)
		r.links = slices.DeleteFunc(r.links, said)
		r.ended = only(r.ended)
		if gone(r.runtimeAt) {
			r.runtime, r.runtimeAt = "", spot{}
		}
	}
	e.notes.drop(gone)
}

// runtimeFile notes where Jupyter wrote its runtime file.
func (e *evidence) runtimeFile(path string, at spot) {
	if !e.wants(appJupyter) {
		return
	}
	r := e.run(appJupyter)
	r.runtime, r.runtimeAt = path, at
	e.notes.add(Note{Stream: at.stream, Line: at.line, Text: "the runtime file: " + path})
}
