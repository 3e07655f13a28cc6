package desktop

import "strings"

// Note is a notification.
type Note struct {
	// Tag names what the note is about. A note replaces the one of its tag that is
	// still shown, and Withdraw takes it away; without a tag it stands for itself.
	Tag     string
	Title   string
	Body    string
	Urgent  bool     // stays until it is seen to
	Actions []Action // shown as buttons where the desktop has them; the first is also a click on the note
	Instead string   // a sentence for where it has none: how else to do it
}

// bare is the note for a desktop without buttons.
func (n Note) bare() Note {
	if len(n.Actions) > 0 && n.Instead != "" {
		n.Body = strings.TrimSpace(n.Body + "\n" + n.Instead)
	}
	n.Actions = nil
	return n
}

// Action is what a person can do from a notification.
type Action struct {
	Label string
	Do    func() // called on the notifier's own goroutine: it must not block
}
