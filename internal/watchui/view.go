package watchui

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/term"
)

const (
	mark      = "› " // before the chosen row, which colours alone must not show
	markWidth = 2
)

// screen is where everything is drawn.
type screen struct {
	width, height int
	colours       bool
}

// layout is that of text beside a margin.
func (s screen) layout(margin int) term.Layout {
	return term.Layout{Width: max(1, s.width-margin), Colours: s.colours}
}

func (s screen) paint(colour, text string) string { return s.layout(0).Paint(colour, text) }

// rowLine is a line of a list.
func (s screen) rowLine(line string, chosen bool) string {
	switch {
	case !chosen:
		return "  " + line
	case !s.colours:
		return mark + line
	}
	return lipgloss.NewStyle().Reverse(true).Render(term.Pad(mark+line, s.width))
}

// View implements tea.Model.
func (m model) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	foot := m.foot()
	lines := append([]string{m.tabs()}, fill(m.body(), m.bodyHeight())...)
	if m.asking.isOpen() {
		v.Cursor = tea.NewCursor(min(term.TextWidth(foot[len(foot)-1]), m.width-1), len(lines)+len(foot)-1)
	}
	lines = append(append(lines, foot...), m.keyLine())
	v.SetContent(strings.Join(lines[:min(len(lines), max(1, m.height))], "\n"))
	return v
}

// bodyHeight is what is left between the line of the views and the message.
func (m *model) bodyHeight() int { return max(1, m.height-2-len(m.foot())) }

// fill cuts or fills lines to a number.
func fill(lines []string, n int) []string {
	return append(lines, make([]string, max(0, n-len(lines)))...)[:n]
}

// tabs is the first line: the views, which row is chosen, and the time of what is shown.
func (m *model) tabs() string {
	var tabs []string
	for i, v := range views {
		text := fmt.Sprintf(" %d %s ", i+1, v.name)
		if viewKind(i) == m.view {
			text = m.paint(term.Bold, fmt.Sprintf("[%d %s]", i+1, v.name))
		}
		tabs = append(tabs, text)
	}
	line, right := strings.Join(tabs, ""), m.now.Format("15:04:05")
	if rows := m.list().rows; len(rows) > 0 && !m.onPage() {
		right = fmt.Sprintf("%d/%d  %s", m.cursors[m.view].index(rows)+1, len(rows), right)
	}
	if room := m.width - term.TextWidth(line) - len(right); room > 0 {
		line += strings.Repeat(" ", room) + m.paint(term.Grey, right)
	}
	return line
}

// foot is the question or the message above the keys; an empty line if there is none.
func (m *model) foot() []string {
	text, colour := m.message, ""
	switch {
	case m.asking.isOpen():
		text = m.asking.text + m.asking.typed
	case m.lost:
		text, colour = AgentLost, term.Yellow
	case m.clock.Sub(m.now) >= silentAfter:
		text, colour = AgentSilent(m.now), term.Yellow
	case m.message == "":
		text, colour = m.stateText()
	case m.failed:
		text, colour = "✗ "+m.message, term.Red
	}
	lines := strings.Split(term.WrapMessage(api.Sanitize(text), max(10, m.width)), "\n")
	if most := max(1, m.height/2); len(lines) > most && m.asking.isOpen() {
		lines = lines[len(lines)-most:] // what is typed is at its end
	} else if len(lines) > most {
		lines = append(lines[:most-1], term.Truncate(lines[most-1], max(0, m.width-2))+" …")
	}
	for i, line := range lines {
		lines[i] = m.paint(colour, line)
	}
	return lines
}

// stateText is what the line above the keys says when there is no message.
func (m *model) stateText() (text, colour string) {
	switch {
	case m.filter != "":
		return "only what contains " + m.filter + "; Esc shows all", term.Grey
	case m.view == useView && m.err != nil:
		return "✗ " + errorText(m.err), term.Red
	case m.view == logView && m.open != (stream{}):
		text = "log of job " + m.open.log.Job
		if name := m.open.log.Session; name != "" {
			text = "log of " + name
		}
		if !m.pager.tail {
			text += "; G shows what is new"
		}
		return text, term.Grey
	}
	return "", ""
}

// keyLine is the last line: the keys that work now, as many as fit.
func (m *model) keyLine() string {
	h := help.New()
	h.Styles = help.Styles{}
	if m.colours {
		grey := lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
		h.Styles = help.Styles{ShortDesc: grey, ShortSeparator: grey, Ellipsis: grey}
	}
	h.ShortSeparator = "  "
	h.SetWidth(m.width)
	return h.ShortHelpView(m.shortKeys())
}

// body is what is between.
func (m *model) body() []string {
	if m.follows() {
		return m.page().end()
	}
	if m.onPage() {
		return m.page().from(m.pager.top)
	}
	l := m.list()
	if len(l.rows) == 0 {
		return []string{"", "  " + m.emptyText()}
	}
	header, lines := l.table.Lines(m.layout(markWidth))
	at := m.cursors[m.view].index(l.rows)
	lines[at][0] = ansi.Strip(lines[at][0]) // the chosen row has one colour
	return append(append(l.above, "  "+header), m.window(lines, at, m.bodyHeight()-1-len(l.above))...)
}

// window is the part of the rows that fits. Where not all notes fit, those of the chosen row are
// shown below the rows, which stay where they are.
func (m *model) window(rows [][]string, chosen, height int) []string {
	shown, notes := split(rows, height)
	var lines []string
	first := m.cursors[m.view].first
	for i := first; i < min(len(rows), first+shown); i++ {
		row := rows[i]
		if notes > 0 {
			row = row[:1]
		}
		for n, line := range row {
			lines = append(lines, m.rowLine(line, i == chosen && n == 0))
		}
	}
	if notes == 0 {
		return lines
	}
	lines = append(fill(lines, shown), "")
	for _, line := range rows[chosen][1:min(len(rows[chosen]), notes)] {
		lines = append(lines, m.rowLine(line, false))
	}
	return lines
}

// split is how many rows fit a height, and how many lines are left below them for the notes of the
// chosen one, with an empty line; 0: each row has its notes, if there are any.
func split(rows [][]string, height int) (shown, notes int) {
	total, most := 0, 0
	for _, row := range rows {
		total += len(row)
		most = max(most, len(row))
	}
	if total <= height {
		return len(rows), 0
	}
	if most > 1 {
		notes = min(most, height/2)
	}
	return height - notes, notes
}

// scroll moves the rows only as far as the chosen one needs it.
func (m *model) scroll() {
	if m.onPage() {
		return
	}
	l := m.list()
	_, lines := l.table.Lines(m.layout(markWidth))
	shown, _ := split(lines, m.bodyHeight()-1-len(l.above))
	c := &m.cursors[m.view]
	at := c.index(l.rows)
	c.first = max(0, min(max(c.first, at-shown+1), at, len(lines)-shown))
}

// emptyText says why a list is empty.
func (m *model) emptyText() string {
	switch {
	case m.filter != "":
		return "nothing here contains " + m.filter
	case m.view == sessionsView && m.options.Session != "":
		return "there is no session " + m.options.Session + " any more"
	}
	return views[m.view].empty
}

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
