package tunnel

import (
	"errors"
	"io/fs"
	"os/exec"

	"tunctl/tunnel/sshconfig"
)

// failureClass is what a failed try means for the next one. It is set where the failure
// is known and stays in its chain of errors. The api.Code and the message are for people
// and decide nothing.
type failureClass int

const (
	classUnknown     failureClass = iota
	classPassing                  // it may pass by itself
	classClosedPort               // nothing listens there; after refused logins, a suspected ban
	classBanned                   // the server says that it bans this address
	classRefused                  // a login was refused, and the server may count that
	classNeedsPerson              // only a person can log in
	classPermanent                // the same again until a person changes something
)

// of puts err into the class. There may be no cause to name.
func (c failureClass) of(err error) error { return &classified{c, err} }

// classified is a cause of a known class.
type classified struct {
	class failureClass
	err   error
}

// Error implements error.
func (e *classified) Error() string {
	if e.err == nil {
		return "no further cause"
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *classified) Unwrap() error { return e.err }

// classOf is the class that was last given to err on its way.
func classOf(err error) failureClass {
	if e, ok := errors.AsType[*classified](err); ok {
		return e.class
	}
	switch e, ok := errors.AsType[*sshconfig.Error](err); {
	case !ok:
		return classUnknown
	case e.Temporary:
		return classPassing
	}
	return classPermanent
}

// classOf is the class of the try's failure. What is of no known class may pass; but
// once the server began to see a login it counts as refused, since to be locked out is
// worse than to wait.
func (t *attempt) classOf(err error) failureClass {
	c := classOf(err)
	switch {
	case c != classUnknown:
		return c
	case !t.loginAt.IsZero():
		return classRefused
	}
	return classPassing
}

// classOfStart is the class of a program that could not be started: one that is not
// there stays away, while a system without room for a process may find some.
func classOfStart(err error) failureClass {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return classPermanent
	}
	return classPassing
}
