// Package detect finds the address of a server in the log of a job: log lines go in,
// an [api.Endpoint] comes out. It has the rules for each app that prints its address,
// and decides which of several addresses to believe.
//
// It reads bytes that a caller gives it and connects to nothing. It does not know
// where a log comes from, which host or scheduler runs the job, and how to reach what
// it finds.
package detect

import "slices"

// Detector reads a job's log while it grows and finds the address of the job's
// server. It accepts bytes in any chunks and remembers a bounded amount of them. It is
// not safe for concurrent use.
type Detector struct {
	custom  []App
	rules   *ruleSet
	ev      *evidence
	streams []*Stream
	found   *Finding // nil if the evidence has changed since
}

// New returns a detector for the app called only, or for any app if only is empty.
// Apps from the config are tried first.
func New(only string, custom ...App) *Detector {
	d := &Detector{rules: builtinRules(), ev: &evidence{only: only, servers: map[string]*server{}}}
	d.custom = slices.DeleteFunc(slices.Clone(custom), func(app App) bool { return !d.ev.wants(app.Name) })
	return d
}

// Stream returns the part of the detector that reads the file called name. A job may
// write its hints to one file and its errors to another: the lines of each file are
// its own, and the finding follows from all of them.
func (d *Detector) Stream(name string) *Stream {
	for _, s := range d.streams {
		if s.name == name {
			return s
		}
	}
	s := &Stream{d: d, name: name, reader: newReader(d.ev)}
	d.streams = append(d.streams, s)
	return s
}

// Write reads the next bytes of the log. It never fails.
func (d *Detector) Write(p []byte) (int, error) { return d.Stream("").Write(p) }

// Flush reads a last line without a newline. It is for a log that is complete: one
// that grows may be cut off anywhere.
func (d *Detector) Flush() {
	for _, s := range d.streams {
		if len(s.split.buf) > 0 {
			s.split.feed([]byte("\n"), s.line)
		}
	}
}

// Finding returns what the log says so far.
func (d *Detector) Finding() Finding {
	if d.found == nil {
		f := d.ev.resolve()
		d.found = &f
	}
	return *d.found
}

// Stream is one file of a job's log.
type Stream struct {
	d         *Detector
	name      string
	split     lineSplitter
	wrap      wrapWidth
	reader    *reader
	pending   string // the last line, if the next one may continue it
	pendingAt int
}

// Write reads the next bytes of the file. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	s.split.feed(p, s.line)
	return len(p), nil
}

// Reset drops everything read from this file: it was truncated or replaced.
func (s *Stream) Reset() {
	s.d.ev.drop(func(at position) bool { return at.stream == s.name })
	s.d.found = nil
	*s = Stream{d: s.d, name: s.name, reader: newReader(s.d.ev)}
}

// line reads one line.
func (s *Stream) line(n int, raw []byte) {
	s.wrap.observe(len(raw))
	rules, app := s.d.rules.find(raw)
	if len(rules) == 0 && s.pending == "" && len(s.d.custom) == 0 {
		return
	}
	text := cleanLine(raw)
	if joined, ok := s.wrap.join(s.pending, text); ok {
		s.d.ev.drop(func(at position) bool { return at == position{s.name, s.pendingAt} }) // it was only the start of one
		n, text = s.pendingAt, joined
		rules, app = s.d.rules.find([]byte(joined))
	}
	s.pending, s.pendingAt = "", n
	if len(text) < maxLine/2 && mayContinue(text) {
		s.pending = text
	}
	s.applyRules(logLine{at: position{s.name, n}, text: text, app: app}, rules)
}

// applyRules tries the patterns from the config and then the given rules.
func (s *Stream) applyRules(l logLine, rules []int) {
	for _, app := range s.d.custom {
		for _, re := range app.Patterns {
			if s.reader.applyCustom(app.Name, re, l) {
				s.d.found = nil
			}
		}
	}
	for _, i := range rules {
		s.d.found = nil
		if s.reader.apply(&s.d.rules.rules[i], l) {
			return
		}
	}
}
