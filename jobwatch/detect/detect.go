// Package detect finds the address of a server in the log of a job: log lines go in,
// an [api.Endpoint] comes out. It has the rules for each app that prints its address,
// and decides which of several addresses to believe.
//
// It reads bytes that a caller gives it and connects to nothing. It does not know
// where a log comes from, which host or scheduler runs the job, and how to reach what
// it finds.
package detect

// Detector reads a job's log as it grows and says where the job serves. It takes
// bytes in any chunks and remembers a bounded amount of them. It is not safe for
// concurrent use.
type Detector struct {
	custom  []App
	book    *ruleBook
	ev      *evidence
	streams []*Stream
	found   *Finding // nil when the evidence changed since
}

// New returns a detector that looks for the app called only, or for any
// app if only is empty. A person's own apps are looked for first.
func New(only string, custom ...App) *Detector {
	d := &Detector{book: builtinRules(), ev: newEvidence(only)}
	for _, app := range custom {
		if d.ev.wants(app.Name) {
			d.custom = append(d.custom, app)
		}
	}
	return d
}

// Stream returns the part of the detector that reads the file called name. A job
// that writes its hints to one file and its errors to another gives evidence in
// both; each file has its own lines, all are judged together.
func (d *Detector) Stream(name string) *Stream {
	for _, s := range d.streams {
		if s.name == name {
			return s
		}
	}
	s := &Stream{d: d, name: name, reading: newReading(d.ev)}
	d.streams = append(d.streams, s)
	return s
}

// Write takes the next bytes of the log. It never fails.
func (d *Detector) Write(p []byte) (int, error) { return d.Stream("").Write(p) }

// Flush says that the log ends here: a last line without a newline is taken as it
// is. It is for who reads a log once; one that grows may be cut off anywhere.
func (d *Detector) Flush() {
	for _, s := range d.streams {
		s.flush()
	}
}

// Finding is the best that can be said so far.
func (d *Detector) Finding() Finding {
	if d.found == nil {
		f := d.ev.judge()
		d.found = &f
	}
	return *d.found
}

// Stream is one of a job's files.
type Stream struct {
	d       *Detector
	name    string
	split   lineSplitter
	gauge   wrapGauge
	reading *reading
	open    string // the last line, if a URL at its end may go on in the next
	openAt  int
}

// Write takes the next bytes of the file. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	s.split.feed(p, s.line)
	return len(p), nil
}

// flush ends a last line without a newline.
func (s *Stream) flush() {
	if len(s.split.buf) > 0 {
		s.split.feed([]byte("\n"), s.line)
	}
}

// Reset forgets what this file said: it was truncated or replaced.
func (s *Stream) Reset() {
	s.d.ev.forget(s.name)
	s.d.found = nil
	*s = Stream{d: s.d, name: s.name, reading: newReading(s.d.ev)}
}

// line reads one line.
func (s *Stream) line(n int, raw []byte) {
	s.gauge.see(len(raw))
	rules, app := s.d.book.find(raw)
	if rules.empty() && s.open == "" && len(s.d.custom) == 0 {
		return
	}
	text := cleanLine(raw)
	if joined, ok := s.gauge.rejoin(s.open, text); s.open != "" && ok {
		s.d.ev.retract(spot{s.name, s.openAt})
		n, text = s.openAt, joined
		rules, app = s.d.book.find([]byte(joined))
	}
	s.open, s.openAt = "", n
	if len(text) < maxLine/2 && mayGoOn(text) {
		s.open = text
	}
	s.interpret(logLine{at: spot{s.name, n}, text: text, app: app}, rules)
}

// interpret tries the rules on a line.
func (s *Stream) interpret(l logLine, rules bitset) {
	for _, app := range s.d.custom {
		for _, re := range app.Patterns {
			if s.reading.custom(app.Name, re, l) {
				s.d.found = nil
			}
		}
	}
	for i := range rules.all {
		s.d.found = nil
		if s.reading.apply(&s.d.book.rules[i], l) {
			return
		}
	}
}
