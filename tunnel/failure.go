package tunnel

import (
	"errors"
	"io/fs"
	"os/exec"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// failureClass decides what follows a failed try. It is set where the failure is
// detected, and stays in the chain of errors. The api.Code and the message are for
// people and decide nothing.
type failureClass int

const (
	classUnknown     failureClass = iota
	classPassing                  // it may succeed later without any change
	classClosedPort               // nothing listens there; after refused logins, a suspected ban
	classBanned                   // the server says that it bans this address
	classRefused                  // the server refused a login, and may count that
	classNeedsPerson              // only a person can log in
	classPermanent                // it fails until a person changes something
)

// of marks err, which may be nil, as of this class.
func (c failureClass) of(err error) error { return &classified{c, err} }

// errorf is an error for people, whose cause, which may be nil, is of this class.
func (c failureClass) errorf(code api.Code, cause error, format string, args ...any) *api.Error {
	return api.Errorf(code, format, args...).Because(c.of(cause))
}

// classified is an error with its class.
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

// classOf is the outermost class of err.
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

// classOf is the class of the try's failure. An unknown failure may pass; but after the
// server saw a login it counts as refused, since a lockout is worse than a wait.
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

// classOfStart is the class of a program that could not be started: a missing one stays
// missing, while a system without free processes may have some later.
func classOfStart(err error) failureClass {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return classPermanent
	}
	return classPassing
}
