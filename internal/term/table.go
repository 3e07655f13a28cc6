package term

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/lists"
)

// Layout is how text is laid out for where it is written to.
type Layout struct {
	Width   int // in cells; 0: without limit
	Colours bool
}

// LayoutFor has the width of the terminal behind w. In a file or a pipe nothing is cut,
// unless COLUMNS sets a width.
func LayoutFor(w io.Writer) Layout {
	l := Layout{}
	if IsTerminal(w) {
		l.Colours = hasColours()
		if width, _, err := Size(w); err == nil {
			l.Width = width
		}
	} else if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		l.Width = width
	}
	if l.Width < 40 {
		l.Width = 0 // nothing fits there anyway
	}
	return l
}

// Table is rows under a header, with notes under each row.
type Table struct {
	Header   []string
	Whole    []string // the columns that are cut last
	Optional []string // the columns that are dropped rather than cut one of those, in this order
	rows     []row
}

type row struct {
	cells []Cell
	notes []string
}

// Cell is the text in a column of a row; its colour may be empty.
type Cell struct{ Text, Colour string }

// Add appends a row; an empty note is none. It sanitizes the texts, since names such as those of jobs come from
// the host.
func (t *Table) Add(notes []string, cells ...Cell) {
	r := row{cells: slices.Clone(cells)}
	for i, c := range r.cells {
		r.cells[i].Text = strings.ReplaceAll(api.Sanitize(c.Text), "\n", " ")
	}
	for _, note := range notes {
		if note != "" {
			r.notes = append(r.notes, api.Sanitize(note))
		}
	}
	t.rows = append(t.rows, r)
}

const (
	columnGap  = 2
	noteIndent = 2
	leastWidth = 6  // of a column that is cut
	readable   = 12 // a width that shows enough of a name to know it
)

// Draw lays the table out so that no line is wider than the layout.
func (t *Table) Draw(l Layout) string {
	header, rows := t.Lines(l)
	lines := append([]string{header}, slices.Concat(rows...)...)
	return strings.Join(lines, "\n") + "\n"
}

// PrintTable prints a table as it fits.
func (t *Terminal) PrintTable(table *Table) error {
	_, err := fmt.Fprint(t.Out, table.Draw(LayoutFor(t.Out)))
	return err
}

// Lines is the table as Draw lays it out, by lines: the header, and each row with its notes.
func (t *Table) Lines(l Layout) (header string, rows [][]string) {
	for _, name := range t.Optional {
		if t.fits(l.Width) {
			break
		}
		t = t.without(name)
	}
	widths := t.widths(l.Width)
	names := lists.Map(t.Header, func(name string) Cell { return Cell{Text: name, Colour: Grey} })
	for _, r := range t.rows {
		lines := []string{l.line(r.cells, widths)}
		for _, note := range r.notes {
			for line := range strings.SplitSeq(note, "\n") {
				lines = append(lines, strings.Split(strings.TrimSuffix(l.Note(line), "\n"), "\n")...)
			}
		}
		rows = append(rows, lines)
	}
	return l.line(names, widths), rows
}

// widths cuts the widest columns until the table fits, those that should stay whole
// only when nothing else is left to cut.
func (t *Table) widths(most int) []int {
	widths := make([]int, len(t.Header))
	total := (len(t.Header) - 1) * columnGap
	for i, name := range t.Header {
		widths[i] = TextWidth(name)
		for _, r := range t.rows {
			widths[i] = max(widths[i], TextWidth(r.cells[i].Text))
		}
		total += widths[i]
	}
	for _, spared := range [][]string{t.Whole, nil} {
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

// fits reports whether the columns that should stay whole do, and the others are still
// readable.
func (t *Table) fits(most int) bool {
	total := (len(t.Header) - 1) * columnGap
	for i, width := range t.widths(0) {
		if !slices.Contains(t.Whole, t.Header[i]) {
			width = min(width, readable)
		}
		total += width
	}
	return most == 0 || total <= most
}

// without is the table without a column.
func (t *Table) without(name string) *Table {
	i := slices.Index(t.Header, name)
	less := &Table{Header: slices.Delete(slices.Clone(t.Header), i, i+1), Whole: t.Whole}
	for _, r := range t.rows {
		less.Add(r.notes, slices.Delete(slices.Clone(r.cells), i, i+1)...)
	}
	return less
}

// widest is the column to cut next, -1 when none can be.
func (t *Table) widest(widths []int, spared []string) int {
	found := -1
	for i, w := range widths {
		if w > leastWidth && !slices.Contains(spared, t.Header[i]) && (found < 0 || w > widths[found]) {
			found = i
		}
	}
	return found
}

// line is a row without its line end.
func (l Layout) line(cells []Cell, widths []int) string {
	var out strings.Builder
	for i, c := range cells {
		text := Truncate(c.Text, widths[i])
		out.WriteString(l.Paint(c.Colour, text))
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", widths[i]-TextWidth(text)+columnGap))
		}
	}
	return out.String()
}

// Note is an indented line of text under a row or a heading, broken between words.
func (l Layout) Note(text string) string {
	line := strings.Repeat(" ", noteIndent) + strings.Join(strings.Fields(text), " ")
	if l.Width > 0 {
		line = strings.Join(Wrap(line, l.Width, noteIndent+2), "\n")
	}
	return line + "\n"
}

// Paint colours text where the layout has colours.
func (l Layout) Paint(colour, text string) string {
	if !l.Colours || colour == "" {
		return text
	}
	return colour + text + resetColour
}
