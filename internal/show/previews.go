package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// Preview prints what is known about one job, without its script.
func Preview(w io.Writer, p api.Preview, now time.Time) {
	fact := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-8s %s\n", what, api.Sanitize(text))
		}
	}
	fact("command", p.Command)
	fact("with", p.With.String())
	if p.Cost != "" {
		fact("cost", p.Cost+" if it runs to its time limit, an estimate")
	}
	fact("start", Start(p, now))
	fact("waited", p.Waited)
}

// PreviewText is a preview in a sentence.
func PreviewText(p api.Preview, now time.Time) string {
	var parts []string
	if p.Cost != "" {
		parts = append(parts, "cost: "+p.Cost+" if it runs to its time limit")
	}
	if start := Start(p, now); start != "" {
		parts = append(parts, "start: "+start)
	}
	if p.Refused != "" {
		parts = append(parts, p.Refused)
	}
	return words.Sentence(strings.Join(parts, "; "))
}

// Previews prints variants of a job as a table.
func Previews(w io.Writer, list []api.Preview, now time.Time) {
	table := term.Table{Header: []string{"WITH", "COST", "START"}, Whole: []string{"WITH", "START"}}
	said := map[string]bool{}
	for _, p := range list {
		start, notes := "-", []string(nil)
		switch {
		case p.Refused != "":
			start, notes = "refused", []string{p.Refused}
		case !p.Start.IsZero():
			start = strings.TrimSuffix(Start(api.Preview{Start: p.Start}, now), ", an estimate")
		case !said[p.Why]:
			notes = append(notes, p.Why)
			said[p.Why] = true
		}
		table.Add(notes, term.Cell{Text: p.With.String(), Colour: term.Bold}, term.Cell{Text: orDash(p.Cost)}, term.Cell{Text: start})
	}
	fmt.Fprint(w, table.Draw(term.LayoutFor(w)))
	fmt.Fprintln(w, "Cost and start are an estimate; the cost is that of the whole time limit.")
	if waited := list[0].Waited; waited != "" {
		fmt.Fprintln(w, words.Capital(waited)+".")
	}
}

// Start is when a job would start, or what is known instead.
func Start(p api.Preview, now time.Time) string {
	switch {
	case p.Refused != "":
		return "never: the scheduler would refuse it"
	case p.Start.IsZero():
		return p.Why
	}
	text := api.ClockText(p.Start, now)
	if p.Start.Sub(now) < time.Minute {
		text = "now"
	}
	text += ", an estimate"
	if p.Why != "" {
		text += "; " + p.Why
	}
	return text
}
