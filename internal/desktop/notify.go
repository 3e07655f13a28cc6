package desktop

import "image"

// Note is a notification.
type Note struct {
	// Tag identifies the subject. A note replaces the one of the same tag that is still
	// shown, and Withdraw removes it. A note without a tag does neither.
	Tag     string
	Title   string
	Body    string
	Icon    *image.NRGBA // nil: none
	Urgent  bool         // stays until the user reacts
	Actions []Action     // buttons, if the desktop has them; the first is also a click on the note
}

// Action is what the user can do from a notification.
type Action struct {
	Label string
	Do    func() // called on the notifier's own goroutine: it must not block
}
