package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code names a kind of failure. Codes are part of the JSON contract.
type Code string

// The codes of errors that cross the local API.
const (
	CodeUsage          Code = "usage"           // the request makes no sense
	CodeConfig         Code = "config"          // the config file is missing or wrong
	CodeUnknownSession Code = "unknown-session" // no session of that name
	CodeUnknownHost    Code = "unknown-host"    // no host of that name
	CodeNeedsPerson    Code = "needs-person"    // a prompt, and nobody to answer it
	CodeTimeout        Code = "timeout"         // gave up waiting
	CodeAgent          Code = "agent"           // the agent cannot be reached
	CodeHostKey        Code = "host-key"        // an unknown or changed host key
	CodeAuth           Code = "auth"            // the host refused the login
	CodeUnreachable    Code = "unreachable"     // the host cannot be reached
	CodeSubmit         Code = "submit"          // the scheduler refused the job
	CodeJobEnded       Code = "job-ended"       // the job ended before it served, or since
	CodeNotReady       Code = "not-ready"       // the session has no page to open yet
	CodeForward        Code = "forward"         // the target could not be reached through the host
	CodeNoScheduler    Code = "no-scheduler"    // no scheduler was found, and nobody has said that the host has none
	CodeOtherChoices   Code = "other-choices"   // the session has a job with other choices
	CodeFailed         Code = "failed"          // anything else
)

// Error is a failure in words the user can act on.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Err     error  `json:"-"`
}

// Errorf returns an error whose message is made as fmt.Errorf makes it, an error given
// for %w being its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint adds what the user can do about it.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Because adds a cause that the message does not quote.
func (e *Error) Because(cause error) *Error {
	e.Err = cause
	return e
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HasCode reports whether an error of the API has one of the codes.
func HasCode(err error, codes ...Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// AsError makes an error one of the API.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Errorf(CodeFailed, "%w", err)
}

// HintOf is what the user can do about an error; "" if that is not known.
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}

// ReplaceHint is an error of the API with another hint; any other error stays as it is.
func ReplaceHint(err error, format string, args ...any) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	better := *e
	return better.WithHint(format, args...)
}

// What can be wrong with a connection through a host.
var (
	// ErrDown: there is no connection to the host now.
	ErrDown = errors.New("the host is not connected")
	// ErrRefused: the host tried and could not connect to the address.
	ErrRefused = errors.New("the host could not connect")
	// ErrProhibited: the host does not allow connections to the address.
	ErrProhibited = errors.New("the host does not allow forwarding")
	// ErrBusy: all sessions that the host allows at a time are in use.
	ErrBusy = errors.New("the host allows no more commands at a time")
)

// Entries of the tray's menu that other texts mention.
const (
	MenuStart     = "Start"
	MenuReconnect = "Reconnect" // if the job runs already: it submits nothing
	MenuLog       = "Show log"
	MenuHostLogin = "Log in…" // of a host
	MenuTrouble   = "See what went wrong…"
)

// MenuLogin is the entry that logs in to a host.
func MenuLogin(host string) string { return "Log in to " + host + "…" }

// Span is a part of a text, or a command in it.
type Span struct {
	Text    string
	Command bool
}

// Clauses are the parts of a hint, each with its commands. One per line is easier to read
// if there is room.
func Clauses(hint string) [][]Span {
	var list [][]Span
	for clause := range strings.SplitSeq(hint, "; ") {
		if spans := Spans(clause); spans != nil {
			list = append(list, spans)
		}
	}
	return list
}

// Spans finds the commands in a text: they are in backticks.
func Spans(text string) []Span {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 { // unbalanced: they quote nothing
		return []Span{{Text: text}}
	}
	var list []Span
	for i, part := range parts {
		if part != "" {
			list = append(list, Span{Text: part, Command: i%2 == 1})
		}
	}
	return list
}

// DurationText writes a time span as every text of tunctl does: "45 s", "12 min",
// "1 h 00 min", "2 d 3 h 00 min".
func DurationText(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	minutes := int(d.Round(time.Minute).Minutes())
	days, hours, minutes := minutes/60/24, minutes/60%24, minutes%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h %02d min", days, hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%d h %02d min", hours, minutes)
	}
	return fmt.Sprintf("%d min", minutes)
}

// ClockText writes a time of day as every text of tunctl does, with the weekday or the date if it is not today's:
// "16:05", "Tue 16:05", "3 Mar 16:05".
func ClockText(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Sub(now).Abs() < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 15:04")
}
