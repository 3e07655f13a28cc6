package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// choice is which session a command means that was given no name: one that passes the
// first of the tests that any session passes.
type choice struct {
	tests []func(api.Session) bool
	none  string // what to say when no session passes any
}

// isUp reports whether a session is up, or on its way there.
func isUp(s api.Session) bool {
	switch s.State {
	case api.SessionDown, api.SessionEnded, api.SessionFailed:
		return false
	}
	return true
}

func isNotDown(s api.Session) bool { return s.State != api.SessionDown }

func hasPage(s api.Session) bool { return s.URL != "" && isUp(s) }

// mayHavePage reports whether a session is up that has more than fixed forwards.
func mayHavePage(s api.Session) bool {
	return isUp(s) && (s.Job != nil || s.Local != "" || len(s.Forwards) == 0)
}

func hasJob(s api.Session) bool { return s.Job != nil }

func hasLiveJob(s api.Session) bool { return s.Job != nil && !s.Job.State.Ended() }

// errNoneFits is wrapped when no session passes a command's tests, and there are several.
var errNoneFits = errors.New("no session fits")

// chooseSession is the session that a command is about: the argument; without one, the
// one of its choice. Where several fit, the person at the terminal picks one.
func chooseSession(ctx context.Context, c *cli.Context, t *term.Terminal, p home.Paths, of choice) (string, error) {
	if c.NArg() > 0 {
		return sessionName(c, p)
	}
	return of.pick(ctx, c, t, p)
}

func (of choice) pick(ctx context.Context, c *cli.Context, t *term.Terminal, p home.Paths) (string, error) {
	st, err := currentStatus(c, t)
	if err != nil {
		return "", err
	}
	for _, test := range of.tests {
		fit := slices.DeleteFunc(slices.Clone(st.Sessions), func(s api.Session) bool { return !test(s) })
		switch len(fit) {
		case 0:
			continue
		case 1:
			return fit[0].Name, nil
		}
		return pickSession(ctx, t, c.Command.Name, fit)
	}
	name, err := onlySession(p)
	if err == nil || len(st.Sessions) == 0 {
		return name, err
	}
	return "", &api.Error{
		Code: api.CodeUsage, Message: of.none, Err: errNoneFits,
		Hint: fmt.Sprintf("name one: `tunctl %s SESSION`; available: %s", c.Command.Name, strings.Join(sessionNames(st.Sessions), ", ")),
	}
}

func sessionNames(list []api.Session) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// pickSession lets the person pick one of several sessions.
func pickSession(ctx context.Context, t *term.Terminal, command string, list []api.Session) (string, error) {
	names := sessionNames(list)
	if !t.Interactive {
		return "", &api.Error{
			Code: api.CodeUsage, Message: fmt.Sprintf("%s needs the name of a session: there are several", command),
			Hint: "available: " + strings.Join(names, ", "),
		}
	}
	width := 0
	for _, name := range names {
		width = max(width, term.TextWidth(name))
	}
	rows := make([]string, len(list))
	for i, s := range list {
		rows[i] = fmt.Sprintf("%s  %s on %s", term.Pad(s.Name, width), s.State, s.Host)
	}
	i, err := choose(ctx, t, "a session's name", rows, func(i int, typed string) bool { return names[i] == typed })
	if err != nil {
		return "", err
	}
	return names[i], nil
}

// choose has the person choose a row. A Ctrl-C, or the end of input, is an error that ends
// the program.
func choose(ctx context.Context, t *term.Terminal, what string, rows []string, matches func(row int, typed string) bool) (int, error) {
	i, err := t.Choose(ctx, what, rows, matches)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		t.Say("stopped; nothing was done")
		return 0, silentError(exitInterrupted)
	case errors.Is(err, io.EOF):
		t.Say("nothing was chosen")
		return 0, silentError(exitFailed)
	}
	return i, err
}
