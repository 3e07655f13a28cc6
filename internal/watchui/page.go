package watchui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// onPage reports whether a page of text is shown in place of a list.
func (m *model) onPage() bool { return m.help || m.details || m.view == logView }

// openPage shows a page of text from its top; a log behind it is shown from its end after it.
func (m *model) openPage() { m.top, m.tail = 0, true }

// follows reports whether the page is a log whose end is followed.
func (m *model) follows() bool { return m.view == logView && !m.help && m.tail }

// pageLines are the lines of the page, as wide as they are.
func (m *model) pageLines() []string {
	switch {
	case m.help:
		return helpLines()
	case m.details:
		layout := term.Layout{Width: m.width, Colours: m.colours}
		var text strings.Builder // with colours, and nothing else that a terminal obeys
		_, _ = term.NewSanitizer(&text).Write([]byte(details(layout, m.only(), m.now)))
		return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	}
	return m.logLines()
}

// pageRows are the rows of the page that fit. Only these are wrapped: a log is long.
func (m *model) pageRows() []string {
	lines, height := m.pageLines(), m.bodyHeight()
	var rows []string
	if m.follows() {
		for i := len(lines) - 1; i >= 0 && len(rows) < height; i-- {
			rows = append(m.wrap(lines[i]), rows...)
		}
		return rows[max(0, len(rows)-height):]
	}
	for i := min(m.top, m.lastTop(lines)); i < len(lines) && len(rows) < height; i++ {
		rows = append(rows, m.wrap(lines[i])...)
	}
	return rows
}

func (m *model) wrap(line string) []string {
	return strings.Split(lipgloss.Wrap(line, max(1, m.width), ""), "\n")
}

// lastTop is the first line of the page's end.
func (m *model) lastTop(lines []string) int {
	rows, top := 0, len(lines)
	for top > 0 {
		if rows += len(m.wrap(lines[top-1])); rows > m.bodyHeight() {
			break
		}
		top--
	}
	return min(top, max(0, len(lines)-1))
}

// scrollPage scrolls the page. At its end, a log is followed.
func (m *model) scrollPage(k tea.KeyPressMsg) {
	if !key.Matches(k, moveKeys...) {
		return
	}
	last := m.lastTop(m.pageLines())
	if m.follows() {
		m.top = last
	}
	m.top = moved(k, m.top, m.bodyHeight(), last)
	if !m.help {
		m.tail = m.top == last
	}
}

// helpLines are all keys, with their meaning.
func helpLines() []string {
	var lines []string
	for _, k := range allKeys {
		lines = append(lines, "  "+term.Pad(k.Help().Key, 7)+k.Help().Desc)
	}
	return append(lines, "", "  Ctrl-Z suspends, Ctrl-C quits too.")
}

// logLines are the lines of the log view.
func (m *model) logLines() []string {
	lines := m.log.all(m.filter)
	switch {
	case m.open == (stream{}):
		return []string{"", "  choose a session or a job first: 1 or 2 lists them, l shows its log"}
	case m.ended.err != nil:
		return append(append(lines[:len(lines):len(lines)], ""), strings.Split("✗ "+api.Sanitize(errorText(m.ended.err)), "\n")...)
	case m.ended.of == m.open:
		return append(lines[:len(lines):len(lines)], "— the end of the log —")
	case len(lines) == 0 && m.filter != "":
		return []string{"", "  no line contains " + m.filter}
	case len(lines) == 0:
		return []string{"", "  no output yet"}
	}
	return lines
}
