package tunnel

import "fmt"

// portTakenError says that a wanted local port cannot be had, and who holds it.
type portTakenError struct {
	port   int
	holder holder // zero where it could not be found out
	err    error  // what the system said
}

func (e *portTakenError) Error() string {
	if e.holder == (holder{}) {
		return fmt.Sprintf("port %d cannot be had: %v", e.port, e.err)
	}
	return fmt.Sprintf("port %d is held by %v", e.port, e.holder)
}

func (e *portTakenError) Unwrap() error { return e.err }

// holder is the program that listens on a local port.
type holder struct {
	name string
	pid  int
	user string // in place of name and pid, where another user's program is hidden from us
}

// String names the program as a person would look for it.
func (h holder) String() string {
	switch {
	case h.pid != 0 && h.name != "":
		return fmt.Sprintf("%s (pid %d)", h.name, h.pid)
	case h.pid != 0:
		return fmt.Sprintf("pid %d", h.pid)
	case h.user != "":
		return "a program of user " + h.user
	}
	return "another program"
}
