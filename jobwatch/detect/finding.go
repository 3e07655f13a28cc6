package detect

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"tunctl/internal/api"
)

// Finding is what a log says about where its job serves.
type Finding struct {
	Found bool
	api.Endpoint
	Ended       bool   // it was announced, and then stopped in the same log
	Why         string // what was believed, and why; holds no secret
	Low         bool   // a guess: offer it, never open it unasked
	RuntimeFile string // where the server wrote its runtime file, when the log tells
	Doubt       bool   // the runtime file should be read
	Link        string // open this as it is: there is nothing to forward
	Notes       []Note // what was found or passed over, by line
}

// Note is a remark about one line of a log. It holds no secret.
type Note struct {
	Stream string // the file, where there are several
	Line   int
	Text   string
	Passed bool // passed over, rather than found
}

// Report is a finding in the JSON form of `tunctl detect`.
type Report struct {
	Found     bool      `json:"found"`
	App       string    `json:"app,omitempty"`
	Scheme    string    `json:"scheme,omitempty"`
	Host      string    `json:"host,omitempty"`
	Port      int       `json:"port,omitempty"`
	Socket    string    `json:"socket,omitempty"`
	Path      string    `json:"path,omitempty"`
	Token     string    `json:"token,omitempty"`
	Reach     api.Reach `json:"reach,omitempty"`
	NeedsNode bool      `json:"needsNode,omitempty"`
	Ended     bool      `json:"ended"`
	Why       string    `json:"why,omitempty"`
}

// Report returns the finding as `tunctl detect --json` prints it, with the token
// only if secrets are asked for.
func (f Finding) Report(secrets bool) Report {
	r := Report{
		Found: f.Found, App: f.App, Scheme: f.Scheme, Host: f.Host, Port: f.Port, Socket: f.Socket, Path: f.Path,
		Reach: f.Reach, NeedsNode: f.NeedsNode, Ended: f.Ended, Why: f.Why,
	}
	if secrets {
		r.Token = f.Token.Reveal()
	}
	return r
}

// Explain tells a person what was found, why, and what was passed over.
func (f Finding) Explain(w io.Writer, secrets bool) {
	fmt.Fprintln(w, f.summary())
	if f.Found {
		fmt.Fprintf(w, "  why    %s\n", f.Why)
	}
	if !f.Token.IsZero() {
		token := f.Token.String()
		if secrets {
			token = f.Token.Reveal()
		}
		fmt.Fprintf(w, "  token  %s\n", token)
	}
	if f.RuntimeFile != "" {
		fmt.Fprintf(w, "  file   %s\n", f.RuntimeFile)
	}
	if f.Doubt {
		fmt.Fprintln(w, "  note   the log is incomplete: the runtime file decides")
	}
	for _, n := range f.Notes {
		verb := "found"
		if n.Passed {
			verb = "ignored"
		}
		where := fmt.Sprintf("line %d", n.Line)
		if n.Stream != "" {
			where = n.Stream + " " + where
		}
		fmt.Fprintf(w, "  %-9s %s: %s\n", where, verb, n.Text)
	}
}

// summary is the finding in one line.
func (f Finding) summary() string {
	if !f.Found {
		return "nothing found: " + f.Why
	}
	text := cmp.Or(f.App, "a server") + " at "
	switch {
	case f.Link != "":
		text += f.Link
	case f.Socket != "":
		text += "the unix socket " + f.Socket
	case f.Port == 0:
		text += fmt.Sprintf("%s://%s, port unknown, path %s", f.Scheme, f.Host, f.Path)
	default:
		text += fmt.Sprintf("%s://%s%s", f.Scheme, f.Address(), f.Path)
	}
	if f.Reach != "" {
		text += ", reach " + string(f.Reach)
	}
	if f.NeedsNode {
		text += ", on the job's node"
	}
	if f.Low {
		text += " (a guess)"
	}
	if f.Ended {
		text += " (ended)"
	}
	return text
}

// maxNotes bounds the remarks kept of a log: half of them from its beginning, half
// from its end, where the last server is.
const maxNotes = 40

// notebook keeps remarks about lines.
type notebook struct{ notes []Note }

// find remarks that a line was taken in.
func (b *notebook) find(s sighting, more string) {
	text := s.said
	if where := s.to.String(); where != "" {
		text += ": " + where
	}
	if more != "" {
		text += "; " + more
	}
	b.add(Note{Stream: s.at.stream, Line: s.at.line, Text: text})
}

// pass remarks that a line was passed over.
func (b *notebook) pass(s sighting, why string) {
	text := why
	if where := s.to.String(); where != "" {
		text = where + ": " + why
	}
	b.add(Note{Stream: s.at.stream, Line: s.at.line, Text: text, Passed: true})
}

func (b *notebook) add(n Note) {
	n.Text = api.NewRemoteText(n.Text).FirstLine(240).String()
	if slices.ContainsFunc(b.notes, func(o Note) bool { return o.Text == n.Text && o.Passed == n.Passed }) {
		return
	}
	if len(b.notes) == maxNotes {
		b.notes = slices.Delete(b.notes, maxNotes/2, maxNotes/2+1)
	}
	b.notes = append(b.notes, n)
}

func (b *notebook) drop(gone func(spot) bool) {
	b.notes = slices.DeleteFunc(b.notes, func(n Note) bool { return gone(spot{n.Stream, n.Line}) })
}

func (b *notebook) list() []Note { return slices.Clone(b.notes) }
