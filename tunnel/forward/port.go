package forward

import (
	"fmt"

	"tunctl/internal/peer"
)

// portTakenError says that a wanted local port cannot be used, and who uses it.
type portTakenError struct {
	port   int
	holder peer.Holder // zero where it could not be found out
	err    error       // what the system said
}

func (e *portTakenError) Error() string {
	if e.holder == (peer.Holder{}) {
		return fmt.Sprintf("port %d cannot be used: %v", e.port, e.err)
	}
	return fmt.Sprintf("port %d is in use by %v", e.port, e.holder)
}

func (e *portTakenError) Unwrap() error { return e.err }
