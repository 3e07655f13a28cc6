package watchui

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"tunctl/internal/lists"
)

func binding(help, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, does))
}

// The keys.
var (
	keyViews   = binding("1–5", "sessions, jobs, use, hosts, log", "1", "2", "3", "4", "5")
	keyUp      = binding("k ↑", "move up", "k", "up")
	keyDown    = binding("j ↓", "move down", "j", "down")
	keyPageUp  = binding("PgUp", "one page up", "pgup", "ctrl+b")
	keyPageDn  = binding("PgDn", "one page down", "pgdown", "ctrl+f", "space")
	keyTop     = binding("g", "to the top", "g", "home")
	keyBottom  = binding("G", "to the end", "G", "end")
	keyDetails = binding("Enter", "all that is known about the chosen row", "enter")
	keyFilter  = binding("/", "show only what contains a text", "/")
	keyOpen    = binding("o", "open the page", "o")
	keyLog     = binding("l", "show the log", "l")
	keyExtend  = binding("e", "ask for more time", "e")
	keyStart   = binding("u", "start the session", "u")
	keyStop    = binding("d", "disconnect; the job keeps running", "d")
	keyCancel  = binding("c", "end the job; asks first", "c")
	keyLogin   = binding("L", "log in to the host", "L")
	keyCopy    = binding("y", "copy the full address of the page", "y")
	keyHelp    = binding("?", "show or hide this list", "?")
	keyBack    = binding("Esc", "back", "esc")
	keyQuit    = binding("q", "quit; sessions stay up", "q", "Q")
)

// moveKeys move the choice in a list, or a page of text.
var moveKeys = []key.Binding{keyUp, keyDown, keyPageUp, keyPageDn, keyTop, keyBottom}

// moved is where such a key leads to.
func moved(k tea.KeyPressMsg, at, page, last int) int {
	switch {
	case key.Matches(k, keyUp):
		at--
	case key.Matches(k, keyDown):
		at++
	case key.Matches(k, keyPageUp):
		at -= page
	case key.Matches(k, keyPageDn):
		at += page
	case key.Matches(k, keyTop):
		at = 0
	case key.Matches(k, keyBottom):
		at = last
	}
	return min(max(0, at), last)
}

// allKeys are the keys in the order of the list that ? shows.
var allKeys = []key.Binding{
	keyViews, keyUp, keyDown, keyPageUp, keyPageDn, keyTop, keyBottom, keyDetails, keyFilter,
	keyOpen, keyLog, keyExtend, keyStart, keyStop, keyCancel, keyLogin, keyCopy, keyHelp, keyBack, keyQuit,
}

// hints are what the last line of a view says about keys.
var hints = map[string]string{
	"?": "help", "q": "quit", "o": "open", "u": "start", "d": "disconnect", "l": "log", "e": "extend", "c": "end job",
	"L": "login", "y": "copy", "/": "filter", "Enter": "details", "Esc": "back", "G": "newest",
}

func hinted(keys ...string) []key.Binding {
	return lists.Map(keys, func(k string) key.Binding { return binding(k, hints[k], k) })
}

// views are what each view is called, the keys in its last line, and what it says without a row.
var views = [...]struct {
	name  string
	keys  []key.Binding
	empty string
}{
	sessionsView: {"sessions", hinted("?", "q", "o", "u", "d", "l", "c", "Enter"), "no sessions yet: `tunctl init` adds one"}, // what fits 80 columns
	jobsView:     {"jobs", hinted("?", "q", "c", "l", "/", "Enter"), "no jobs known: the agent lists those of hosts where it watches a job"},
	useView:      {"use", hinted("?", "q", "e", "c", "/", "Enter"), "no session has a running job"},
	hostsView:    {"hosts", hinted("?", "q", "L", "/", "Enter"), "no host is connected"},
	logView:      {"log", hinted("?", "q", "Esc", "G", "/"), ""},
}

// shortKeys are the keys in the last line: while something is typed or shown over the view,
// those of the view do something else.
func (m *model) shortKeys() []key.Binding {
	if m.asking.isOpen() {
		return m.asking.keys()
	}
	back := binding("Esc", "back", "esc")
	keys := views[m.view].keys
	switch m.over {
	case helpOverlay:
		return []key.Binding{binding("?", "hide this list", "?"), back, binding("j ↓", "down", "j", "down"), binding("k ↑", "up", "k", "up"), keys[1]}
	case detailsOverlay:
		return slices.Insert(slices.Clone(keys[:len(keys)-1]), 2, back)
	}
	return keys
}
