// Package failure says what kind of failure an attempt to connect ended with, and so
// what may follow it: another try, a stop, or a question to the user. Whoever detects a
// failure gives it a [Class]; what follows from it is decided in package retry.
//
// It also reads what OpenSSH's client prints ([ReadSSH]), and the error codes of the
// system. It connects to nothing.
package failure

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
	"time"

	"tunctl/internal/api"
)

// ErrNobody is wrapped by the error of a question that nobody can be asked.
var ErrNobody = errors.New("there is no terminal or desktop to ask")

// Class decides what follows a failed try. It is set where the failure is
// detected, and stays in the chain of errors. The api.Code and the message are for
// people and decide nothing.
type Class int

// The classes.
const (
	Unknown    Class = iota
	Passing          // our link failed, or the server is busy; it may succeed later without any change
	ClosedPort       // nothing listens there; after refused logins, a suspected ban
	Banned           // the server says that it refuses this address for a while
	Refused          // the server refused a login, by its word or by its hang-up, and may count that
	NeedsUser        // only the user can log in
	Permanent        // it fails until the user changes something
)

// Wrap marks err, which may be nil, as of this class.
func (c Class) Wrap(err error) error { return &classified{c, err} }

// Errorf is an error for people, whose cause, which may be nil, is of this class.
func (c Class) Errorf(code api.Code, cause error, format string, args ...any) *api.Error {
	return api.Errorf(code, format, args...).Because(c.Wrap(cause))
}

// classified is an error with its class.
type classified struct {
	class Class
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

// Of is the outermost class of err.
func Of(err error) Class {
	if e, ok := errors.AsType[*classified](err); ok {
		return e.class
	}
	return Unknown
}

// IsFinal reports whether what failed like this must not be tried again by itself: the site
// counts refused logins.
func (c Class) IsFinal() bool { return c == Refused || c == NeedsUser || c == Permanent }

// Refusals space out the tries of what failed finally, since the site may count them: the second
// follows a minute after the first, each later one an hour after the one before. None is the last:
// the server may have refused because of an outage of its own.
type Refusals struct {
	count int
	err   error
	next  time.Time
}

// Note takes in how a try ended.
func (r *Refusals) Note(err error) {
	switch {
	case err == nil:
		*r = Refusals{}
	case Of(err).IsFinal():
		wait := time.Hour
		if r.count++; r.count == 1 {
			wait = time.Minute
		}
		r.err, r.next = err, time.Now().Add(wait)
	}
}

// Err is why nothing is tried now; nil: it may be tried.
func (r *Refusals) Err() error {
	if time.Now().Before(r.next) {
		return r.err
	}
	return nil
}

// OfStart is the class of a program that could not be started: a missing one stays
// missing, while a system without free processes may have some later.
func OfStart(err error) Class {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return Permanent
	}
	return Passing
}

// RouteError says that one route onto a compute node does not work, whatever listens
// there.
type RouteError struct {
	Route string
	Err   error
}

// Error implements error.
func (e *RouteError) Error() string { return e.Route + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *RouteError) Unwrap() error { return e.Err }

// IsRoute reports whether err is about a route.
func IsRoute(err error) bool {
	_, ok := errors.AsType[*RouteError](err)
	return ok
}

// OfCommand is the failure of a route that runs a command on the host.
func OfCommand(err error) error { return &RouteError{"a command on the host", err} }

// Windows has numbers of its own for these errors, which no other system has.
const windowsReset, windowsRefused = syscall.Errno(10054), syscall.Errno(10061)

// IsConnRefused reports whether the port was closed.
func IsConnRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windowsRefused)
}

// IsConnReset reports whether the other end reset the connection.
func IsConnReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, windowsReset)
}
