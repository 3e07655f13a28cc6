package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
)

func statusCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show what is up, where, and until when",
		ArgsUsage: "[SESSION]",
		Description: "Shows what the agent knows, without asking anyone: the agent asks the scheduler about once a minute.\n" +
			"--refresh asks now.\n\n" +
			"  tunctl status\n" +
			"  tunctl status jupyter --json\n" +
			"  tunctl status --watch",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "watch", Usage: "keep showing every change; q or Ctrl-C quits"},
			&cli.BoolFlag{Name: "refresh", Usage: "ask the schedulers of connected hosts first"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("unexpected argument %q: status takes one session", c.Args().Get(1))
			}
			st, err := currentStatus(c, t)
			switch {
			case err != nil:
				return err
			case c.Bool("watch"):
				return watchStatus(c, t)
			}
			return showStatus(c, t, st)
		},
	}
}

// currentStatus asks the agent, and reads the config alone where none is
// running: status never starts an agent.
func currentStatus(c *cli.Context, t *term.Terminal) (api.Status, error) {
	p, err := paths(c)
	if err != nil {
		return api.Status{}, err
	}
	cl := client.New(p)
	var st api.Status
	if c.Bool("refresh") {
		t.Draw("asking the scheduler…")
		st, err = cl.Refresh(c.Context, c.Args().First())
		t.Draw("")
	} else {
		st, err = cl.Status(c.Context)
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return st, err
	}
	cfg, err := existingConfig(p)
	if err != nil {
		return api.Status{}, err
	}
	st = api.Status{Version: api.Version, Hosts: []api.Host{}, Sessions: []api.Session{}}
	for _, s := range cfg.Sessions {
		st.Sessions = append(st.Sessions, api.Session{Name: s.Name, Host: s.Host, State: api.SessionDown, Forwards: []api.Forward{}})
	}
	return st, nil
}

func showStatus(c *cli.Context, t *term.Terminal, st api.Status) error {
	if c.NArg() == 0 {
		if c.Bool("json") {
			return t.PrintIndentedJSON(st)
		}
		return printStatus(t, st)
	}
	st, err := onlyAsked(c, st)
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return t.PrintIndentedJSON(st.Sessions[0])
	}
	return printStatus(t, st)
}

// onlyAsked leaves in the status what the argument, if any, asks for.
func onlyAsked(c *cli.Context, st api.Status) (api.Status, error) {
	if c.NArg() == 0 {
		return st, nil
	}
	s, ok := st.Session(c.Args().First())
	if !ok {
		return st, unknownSession(c.Args().First(), st)
	}
	st.Sessions = []api.Session{s}
	st.Hosts = hostsOf(st.Hosts, s.Host)
	return st, nil
}

func hostsOf(hosts []api.Host, name string) []api.Host {
	for _, h := range hosts {
		if h.Alias == name {
			return []api.Host{h}
		}
	}
	return nil
}

// unknownSession lists the known sessions, the nearest first.
func unknownSession(name string, st api.Status) error {
	names := sessionNames(st.Sessions)
	e := &api.Error{Code: api.CodeUnknownSession, Message: fmt.Sprintf("no session %q", name), Hint: "`tunctl init` adds one"}
	if len(names) > 0 {
		e.Hint = "available: " + strings.Join(suggest.NearestFirst(name, names), ", ")
	}
	return e
}

func printStatus(t *term.Terminal, st api.Status) error {
	if st.Agent == nil {
		t.Say("the agent is not running: nothing is up")
	} else {
		warnAboutVersion(t, st)
	}
	warnAboutConfig(t, st)
	warnAboutOutdated(t, st.Hosts)
	if len(st.Sessions) == 0 {
		t.Say("no sessions yet: `tunctl init` adds one, `tunctl demo` needs none")
		return nil
	}
	_, err := fmt.Fprint(t.Out, statusTable(term.LayoutFor(t.Out), st, time.Now()))
	return err
}

// untilText says until when a running job may run.
func untilText(j *api.Job, now time.Time) string {
	if j == nil || j.State != api.JobRunning || j.End.Before(now) {
		return ""
	}
	return " until " + j.End.Local().Format("Mon 15:04")
}
