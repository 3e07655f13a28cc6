package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

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

func hasJob(s api.Session) bool { return s.Job != nil }

func hasLiveJob(s api.Session) bool { return s.Job != nil && !s.Job.State.Ended() }

// errNoneUp is wrapped when no session passes a command's tests, and there are several.
var errNoneUp = errors.New("no session is up")

// chooseSession is the session that a command is about: the argument; without one the
// only session that passes the first of the tests that any passes. Where several do,
// the person at the terminal picks one.
func chooseSession(ctx context.Context, c *cli.Context, t *terminal, p home.Paths, tests ...func(api.Session) bool) (string, error) {
	if c.NArg() > 0 {
		return sessionName(c, p)
	}
	return pickOfThoseUp(ctx, c, t, p, tests...)
}

func pickOfThoseUp(ctx context.Context, c *cli.Context, t *terminal, p home.Paths, tests ...func(api.Session) bool) (string, error) {
	st, err := currentStatus(c, t)
	if err != nil {
		return "", err
	}
	for _, test := range tests {
		fit := slices.DeleteFunc(slices.Clone(st.Sessions), func(s api.Session) bool { return !test(s) })
		switch len(fit) {
		case 0:
			continue
		case 1:
			return fit[0].Name, nil
		}
		return t.pickSession(ctx, c.Command.Name, fit)
	}
	if len(st.Sessions) > 1 {
		return "", &api.Error{
			Code: api.CodeUsage, Message: errNoneUp.Error(), Err: errNoneUp,
			Hint: fmt.Sprintf("name one: `tunctl %s SESSION`; available: %s", c.Command.Name, strings.Join(sessionNames(st.Sessions), ", ")),
		}
	}
	return onlySession(p)
}

func sessionNames(list []api.Session) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// pickSession lets the person pick one of several sessions.
func (t *terminal) pickSession(ctx context.Context, command string, list []api.Session) (string, error) {
	names := sessionNames(list)
	if !t.asks {
		return "", &api.Error{
			Code: api.CodeUsage, Message: fmt.Sprintf("%s needs the name of a session: several are up", command),
			Hint: "available: " + strings.Join(names, ", "),
		}
	}
	width := 0
	for _, name := range names {
		width = max(width, breadth(name))
	}
	rows := make([]string, len(list))
	for i, s := range list {
		rows[i] = fmt.Sprintf("%s  %s on %s", pad(s.Name, width), s.State, s.Host)
	}
	i, err := t.pick(ctx, "a session's name", rows, func(i int, typed string) bool { return names[i] == typed })
	if err != nil {
		return "", err
	}
	return names[i], nil
}

// pick lets the person pick one of several rows by its number, or by what is; is
// reports whether that was typed for a row.
func (t *terminal) pick(ctx context.Context, what string, rows []string, is func(row int, typed string) bool) (int, error) {
	for i, row := range rows {
		t.say("%3d) %s", i+1, row)
	}
	for {
		text, err := t.readLine(ctx, fmt.Sprintf("Which one? [1-%d] ", len(rows)), true)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			t.say("stopped; nothing was done")
			return 0, silentError(exitInterrupted)
		case errors.Is(err, io.EOF):
			t.say("nothing was chosen")
			return 0, silentError(exitFailed)
		case err != nil:
			return 0, err
		}
		text = strings.TrimSpace(text)
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(rows) {
			return n - 1, nil
		}
		for i := range rows {
			if is(i, text) {
				return i, nil
			}
		}
		t.say("%q is not one of them: type a number from 1 to %d, or %s", text, len(rows), what)
	}
}
