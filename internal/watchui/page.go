package watchui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/term"
)

// pager is where a page of text is read.
type pager struct {
	top  int  // the first line
	tail bool // the end of a log is followed
}

// page is a page of text on the screen. Only the lines that fit are wrapped: a log is long.
type page struct {
	lines         []string
	width, height int
}

func (p page) wrap(line string) []string {
	return strings.Split(lipgloss.Wrap(line, max(1, p.width), ""), "\n")
}

// from are the rows from a line on.
func (p page) from(top int) []string {
	var rows []string
	for i := min(top, p.lastTop()); i < len(p.lines) && len(rows) < p.height; i++ {
		rows = append(rows, p.wrap(p.lines[i])...)
	}
	return rows
}

// end are the last rows.
func (p page) end() []string {
	var rows []string
	for i := len(p.lines) - 1; i >= 0 && len(rows) < p.height; i-- {
		rows = append(p.wrap(p.lines[i]), rows...)
	}
	return rows[max(0, len(rows)-p.height):]
}

// lastTop is the first line of the page's end.
func (p page) lastTop() int {
	rows, top := 0, len(p.lines)
	for top > 0 {
		if rows += len(p.wrap(p.lines[top-1])); rows > p.height {
			break
		}
		top--
	}
	return min(top, max(0, len(p.lines)-1))
}

// onPage reports whether a page of text is shown in place of a list.
func (m *model) onPage() bool { return m.over != noOverlay || m.view == logView }

// follows reports whether the page is a log whose end is followed.
func (m *model) follows() bool { return m.view == logView && m.over == noOverlay && m.pager.tail }

// page is the page of text that is shown.
func (m *model) page() page {
	p := page{width: m.width, height: m.bodyHeight()}
	switch m.over {
	case helpOverlay:
		p.lines = helpLines()
	case detailsOverlay:
		var text strings.Builder // with colours, and nothing else that a terminal obeys
		if chosen := m.target(); chosen.key != "" {
			_, _ = api.NewSanitizer(&text).Write([]byte(chosen.details(m.layout(0), m.now)))
		}
		p.lines = strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	default:
		p.lines = m.logLines(m.filter, m.paint)
	}
	return p
}

// scrollPage scrolls the page. At its end, a log is followed.
func (m *model) scrollPage(k tea.KeyPressMsg) {
	page := m.page()
	last := page.lastTop()
	if m.follows() {
		m.pager.top = last
	}
	m.pager.top = moved(k, m.pager.top, page.height, last)
	if m.over != helpOverlay {
		m.pager.tail = m.pager.top == last
	}
}

// helpLines are all keys, with their meaning.
func helpLines() []string {
	lines := lists.Map(allKeys, func(k key.Binding) string { return "  " + term.Pad(k.Help().Key, 7) + k.Help().Desc })
	return append(lines, "", "  Ctrl-Z suspends, Ctrl-C quits too.")
}
