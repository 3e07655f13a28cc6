package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
)

func statusCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show what is up, where, and until when",
		ArgsUsage: "[SESSION]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print it as JSON"},
			&cli.BoolFlag{Name: "watch", Usage: "go on showing every change, until Ctrl-C"},
		},
		BashComplete: completeSessions,
		Action: func(c *cli.Context) error {
			if c.Bool("watch") {
				return watchStatus(c, t)
			}
			st, err := currentStatus(c)
			if err != nil {
				return err
			}
			return showStatus(c, t, st)
		},
	}
}

// currentStatus asks the agent, and reads the config alone where none is
// running: status never starts an agent.
func currentStatus(c *cli.Context) (api.Status, error) {
	p, err := paths(c)
	if err != nil {
		return api.Status{}, err
	}
	st, err := client.New(p).Status(c.Context)
	if !errors.Is(err, client.ErrNotRunning) {
		return st, err
	}
	st = api.Status{Version: api.Version, Hosts: []api.Host{}, Sessions: []api.Session{}}
	if cfg, err := configs.Load(p.Config); err == nil { // else nothing is up, whatever the file says
		for _, s := range cfg.Sessions {
			st.Sessions = append(st.Sessions, api.Session{Name: s.Name, Host: s.Host, State: api.SessionDown, Forwards: []api.Forward{}})
		}
	}
	return st, nil
}

func showStatus(c *cli.Context, t *terminal, st api.Status) error {
	if c.NArg() == 0 {
		if c.Bool("json") {
			return t.indented(st)
		}
		return printStatus(t, st)
	}
	s, ok := st.Session(c.Args().First())
	if !ok {
		return &api.Error{Code: api.CodeUnknownSession, Message: fmt.Sprintf("no session %q", c.Args().First()), Hint: "there is: " + sessionNames(st)}
	}
	if c.Bool("json") {
		return t.indented(s)
	}
	st.Sessions = []api.Session{s}
	return printStatus(t, st)
}

func sessionNames(st api.Status) string {
	names := make([]string, len(st.Sessions))
	for i, s := range st.Sessions {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

func printStatus(t *terminal, st api.Status) error {
	if st.Agent == nil {
		t.say("the agent is not running: nothing is up")
	} else {
		t.warnAboutVersion(st)
	}
	if st.Config != nil {
		t.say("the config has errors, the last good one is in use:\n%s", st.Config.Message)
	}
	if len(st.Sessions) == 0 {
		t.say("no sessions: `tunctl config edit` makes some, `tunctl demo` needs none")
		return nil
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tHOST\tSTATE\tJOB\tLEFT\tADDRESS")
	for _, s := range st.Sessions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Host, s.State, jobText(s.Job), leftText(s.Job, time.Now()), addressText(s))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range st.Sessions {
		if s.Cause != "" {
			fmt.Fprintf(t.out, "%s: %s\n", s.Name, s.Cause)
		}
		if s.Hint != "" {
			fmt.Fprintf(t.out, "%s: %s\n", strings.Repeat(" ", len(s.Name)), s.Hint)
		}
	}
	return nil
}

func jobText(j *api.Job) string {
	switch {
	case j == nil:
		return "-"
	case j.Node != "" && !j.State.Ended():
		return j.ID + " on " + j.Node
	}
	return j.ID
}

func leftText(j *api.Job, now time.Time) string {
	if j == nil || j.State != api.JobRunning || j.End.Before(now) {
		return "-"
	}
	return hoursText(j.End.Sub(now))
}

func addressText(s api.Session) string {
	switch {
	case s.URL != "":
		return s.URL
	case s.Local != "":
		return s.Local
	case len(s.Forwards) > 0:
		return s.Forwards[0].Listen
	}
	return "-"
}

// hoursText writes how long is left as a person would say it.
func hoursText(d time.Duration) string {
	d = d.Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// untilText says until when a running job may run.
func untilText(j *api.Job, now time.Time) string {
	if j == nil || j.State != api.JobRunning || j.End.Before(now) {
		return ""
	}
	return " until " + j.End.Local().Format("Mon 15:04")
}

// watchStatus prints the status anew at every change.
func watchStatus(c *cli.Context, t *terminal) error {
	ctx, stop := interruptible(c.Context)
	defer stop()
	p, err := paths(c)
	if err != nil {
		return err
	}
	cl := client.New(p)
	var shown error
	err = cl.Watch(ctx, api.AnswersNone, func(e api.Event) {
		if e.Type != api.EventStatus && e.Type != api.EventSession && e.Type != api.EventSessionGone {
			return
		}
		st, err := cl.Status(ctx)
		if err != nil {
			return // the stream's own end tells
		}
		if t.live && !c.Bool("json") {
			fmt.Fprint(t.out, "\x1b[H\x1b[2J")
		}
		if shown = showStatus(c, t, st); shown != nil {
			stop()
		}
	})
	switch {
	case shown != nil:
		return shown
	case ctx.Err() != nil:
		return silentError(exitInterrupted)
	}
	return err
}
