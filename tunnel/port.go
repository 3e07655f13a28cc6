package tunnel

import "fmt"

// PortTakenError says that a wanted local port cannot be had, and who holds it.
type PortTakenError struct {
	Port   int
	Holder Holder // zero where it could not be found out
	Err    error  // what the system said
}

// Error implements error.
func (e *PortTakenError) Error() string {
	if e.Holder == (Holder{}) {
		return fmt.Sprintf("port %d cannot be had: %v", e.Port, e.Err)
	}
	return fmt.Sprintf("port %d is held by %v", e.Port, e.Holder)
}

// Unwrap returns what the system said.
func (e *PortTakenError) Unwrap() error { return e.Err }

// Holder is the program that listens on a local port.
type Holder struct {
	Name string
	PID  int
	User string // in place of name and pid, where another user's program is hidden from us
}

// String names the program as a person would look for it.
func (h Holder) String() string {
	switch {
	case h.PID != 0 && h.Name != "":
		return fmt.Sprintf("%s (pid %d)", h.Name, h.PID)
	case h.PID != 0:
		return fmt.Sprintf("pid %d", h.PID)
	case h.User != "":
		return "a program of user " + h.User
	}
	return "another program"
}
