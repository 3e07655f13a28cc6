package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func loginCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "login",
		Usage:     "log in to a host: password, one-time code or host key",
		ArgsUsage: "HOST",
		Description: "HOST is an alias from ~/.ssh/config, a host from tunctl's config, or user@address.\n\n" +
			"You answer the host's prompts in this terminal. Without a terminal, and without the tray,\n" +
			"the command fails with exit status 3.\n\n" +
			"A password is asked for at each login, unless you have it saved: --remember keeps it in\n" +
			"memory until the agent stops, --save in the system keyring. One-time codes are never saved.\n\n" +
			"  tunctl login narval",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "save", Usage: "save the password in the system keyring"},
			&cli.BoolFlag{Name: "remember", Usage: "keep the password in memory until the agent stops"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("login takes one HOST, as named in your ssh config")
			}
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := login(ctx, c, t, c.Args().First())
			if c.Err() == nil && ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

func logoutCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "logout",
		Usage:     "disconnect from a host; its sessions wait until you log in again",
		ArgsUsage: "HOST",
		Description: "Shells and copies on the host and its compute nodes end too. A host that others are reached\n" +
			"through stays connected until you log out of those; the command names them and fails.\n\n" +
			"  tunctl logout narval",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("logout takes one HOST, as named in your ssh config")
			}
			p, err := paths(c)
			if err != nil {
				return err
			}
			host := c.Args().First()
			err = client.New(p).Logout(c.Context, host)
			switch {
			case errors.Is(err, client.ErrNotRunning):
				t.Say("the agent is not running: no host is connected")
				return nil
			case err != nil:
				return err
			}
			t.Say("disconnected from %s", host)
			return nil
		},
	}
}

// login asks the agent to connect and answers the host's questions at the terminal.
func login(ctx context.Context, c *cli.Context, t *term.Terminal, host string) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	cl, _, err := connect(ctx, t, p)
	if err != nil {
		return err
	}
	keep := api.KeepNot
	switch {
	case c.Bool("save"):
		keep = api.KeepKeyring
	case c.Bool("remember"):
		keep = api.KeepMemory
	}
	if err := logInKeeping(ctx, t, cl, host, keep); err != nil {
		return err
	}
	t.Say("%s connected to %s", t.Paint(term.Green, "✓"), host)
	return nil
}

// logInTo has the agent connect to a host, and puts what the host asks to the person.
func logInTo(ctx context.Context, t *term.Terminal, cl *client.Client, host string) error {
	return logInKeeping(ctx, t, cl, host, api.KeepNot)
}

// logInKeeping is logInTo for a person who wants their password kept.
func logInKeeping(ctx context.Context, t *term.Terminal, cl *client.Client, host string, keep api.Keep) error {
	answers := api.AnswersNone
	if t.Interactive {
		answers = api.AnswersTerminal
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asked := false
	q := &questions{term: t, client: cl, keep: keep}
	defer q.wait()
	err := cl.Watch(ctx, answers, func(e api.Event) {
		switch {
		case !asked: // the status: from now on nothing is missed
			asked = true
			switch h, err := cl.Login(ctx, host); {
			case err != nil:
				cancel(err)
			case h.State == api.HostUp: // it was there already, so nothing will be heard of it
				cancel(errLoggedIn)
			default:
				q.follow(h)
			}
		case q.hear(ctx, e):
		case e.Type == api.EventHost && e.Host.Alias == host:
			q.follow(*e.Host)
			if done, err := loginResult(*e.Host); done {
				for _, w := range e.Host.Warnings {
					t.Say("tunctl: warning: %s", w)
				}
				cancel(err)
			}
		}
	})
	if cause := context.Cause(ctx); errors.Is(cause, errLoggedIn) {
		return nil
	} else if cause != nil {
		return cause
	}
	return err
}

var errLoggedIn = errors.New("logged in")

// loginResult reports whether a host's state is the answer to a login.
func loginResult(h api.Host) (bool, error) {
	e := &api.Error{Code: h.Code, Message: h.Cause, Hint: h.Hint}
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s is %s", h.Alias, h.State)
	}
	if h.State == api.HostDown {
		e.Message = fmt.Sprintf("the login to %s was cancelled by a logout", h.Alias)
	}
	switch h.State {
	case api.HostUp:
		return true, errLoggedIn
	case api.HostNeedsLogin:
		e.Code = api.CodeNeedsPerson
		return true, e
	case api.HostWaiting, api.HostBlocked, api.HostDown:
		e.Code = cmp.Or(e.Code, api.CodeUnreachable)
		return true, e
	}
	return false, nil
}
