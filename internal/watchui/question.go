package watchui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
)

// question is asked in the line above the keys.
type question struct {
	text    string // "": nothing is asked
	typed   string
	confirm bool // it is answered by y or n alone
	filter  bool // what is typed filters at once
	task    task
}

func (q question) isOpen() bool { return q.text != "" }

// add takes in what was typed or pasted.
func (q *question) add(text string) {
	if q.isOpen() && !q.confirm {
		q.typed += strings.ReplaceAll(api.Sanitize(text), "\n", " ")
	}
}

// edit is a key that changes the answer.
func (q *question) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "backspace":
		if runes := []rune(q.typed); len(runes) > 0 {
			q.typed = string(runes[:len(runes)-1])
		}
	case "ctrl+u":
		q.typed = ""
	default:
		q.add(k.Key().Text)
	}
}

// keys are those that answer the question, for the last line.
func (q question) keys() []key.Binding {
	back := binding("Esc", "back", "esc")
	switch {
	case q.confirm:
		return []key.Binding{binding("y", "yes", "y"), binding("n", "no", "n"), back}
	case q.filter:
		return []key.Binding{binding("Enter", "keep the filter", "enter"), binding("Esc", "show all", "esc")}
	}
	return []key.Binding{binding("Enter", "ask for it", "enter"), back}
}
