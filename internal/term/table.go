package main

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"tunctl/internal/api"
)

// paper is what a table is drawn on.
type paper struct {
	width   int // 0: as wide as it gets
	colours bool
}

// newPaper is as wide as the terminal behind w. Into a file or a pipe nothing is cut,
// unless COLUMNS says how wide it is.
func newPaper(w io.Writer) paper {
	p := paper{}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.width = width
		}
	} else if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		p.width = width
	}
	if p.width < 40 {
		p.width = 0 // nothing fits there anyway
	}
	return p
}

// table is rows under a head, with notes under each row.
type table struct {
	head  []string
	whole []string // the columns that are cut last
	spare string   // the column that is left out where it gets too narrow for that
	rows  []row
}

type row struct {
	cells []cell
	notes []string
}

type cell struct{ text, colour string }

// add appends a row. Much of what it shows was named on the host, such as jobs.
func (t *table) add(notes []string, cells ...cell) {
	r := row{slices.Clone(cells), slices.Clone(notes)}
	for i, c := range r.cells {
		r.cells[i].text = strings.ReplaceAll(api.Sanitize(c.text), "\n", " ")
	}
	for i, note := range r.notes {
		r.notes[i] = api.Sanitize(note)
	}
	t.rows = append(t.rows, r)
}

const (
	columnGap  = 2
	noteIndent = 2
	leastWidth = 6 // of a column that is cut
)

// draw lays the table out so that no line is wider than the paper.
func (t *table) draw(p paper) string {
	widths := t.widths(p.width)
	if t.cuts(widths) {
		t = t.without(t.spare)
		widths = t.widths(p.width)
	}
	var out strings.Builder
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{text: h, colour: grey}
	}
	p.line(&out, head, widths)
	for _, r := range t.rows {
		p.line(&out, r.cells, widths)
		for _, note := range r.notes {
			for line := range strings.SplitSeq(note, "\n") {
				p.note(&out, line)
			}
		}
	}
	return out.String()
}

// widths cuts the widest columns until the table fits, those that should stay whole
// only when nothing else is left to cut.
func (t *table) widths(most int) []int {
	widths := make([]int, len(t.head))
	total := (len(t.head) - 1) * columnGap
	for i := range t.head {
		widths[i] = t.columnWidth(i)
		total += widths[i]
	}
	for _, spared := range [][]string{t.whole, nil} {
		for most > 0 && total > most {
			widest := t.widest(widths, spared)
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	return widths
}

// cuts reports whether a column is cut that should stay whole.
func (t *table) cuts(widths []int) bool {
	return slices.ContainsFunc(t.whole, func(name string) bool {
		i := slices.Index(t.head, name)
		return widths[i] < t.columnWidth(i)
	})
}

func (t *table) columnWidth(i int) int {
	width := breadth(t.head[i])
	for _, r := range t.rows {
		width = max(width, breadth(r.cells[i].text))
	}
	return width
}

// without is the table but for a column.
func (t *table) without(name string) *table {
	i := slices.Index(t.head, name)
	if i < 0 {
		return t
	}
	less := &table{head: slices.Delete(slices.Clone(t.head), i, i+1), whole: t.whole}
	for _, r := range t.rows {
		less.add(r.notes, slices.Delete(slices.Clone(r.cells), i, i+1)...)
	}
	return less
}

// widest is the column to cut next, -1 when none can be.
func (t *table) widest(widths []int, spared []string) int {
	found := -1
	for i, w := range widths {
		if w > leastWidth && !slices.Contains(spared, t.head[i]) && (found < 0 || w > widths[found]) {
			found = i
		}
	}
	return found
}

func (p paper) line(out *strings.Builder, cells []cell, widths []int) {
	for i, c := range cells {
		text := shorten(c.text, widths[i])
		out.WriteString(p.paint(c.colour, text))
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", widths[i]-breadth(text)+columnGap))
		}
	}
	out.WriteByte('\n')
}

// note writes a line under a row, broken between words.
func (p paper) note(out *strings.Builder, text string) {
	indent := strings.Repeat(" ", noteIndent)
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			out.WriteString(indent)
			at = noteIndent
		case p.width > 0 && at+1+breadth(word) > p.width:
			out.WriteString("\n" + indent + "  ")
			at = noteIndent + 2
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += breadth(word)
	}
	out.WriteByte('\n')
}

func (p paper) paint(colour, text string) string {
	if !p.colours || colour == "" {
		return text
	}
	return colour + text + "\x1b[0m"
}

// shorten cuts text to a width in terminal cells, and shows that it did. It never cuts
// a character in half: one that takes two cells may leave the last cell empty.
func shorten(text string, width int) string {
	if breadth(text) <= width {
		return text
	}
	const ellipsis = "…"
	kept := 0 // bytes
	for room, g := width-breadth(ellipsis), uniseg.NewGraphemes(text); g.Next(); {
		if room -= g.Width(); room < 0 {
			break
		}
		_, kept = g.Positions()
	}
	return text[:kept] + ellipsis
}
