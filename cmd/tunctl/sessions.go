package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// errNoneFits is wrapped when no session passes a command's tests, and there are several.
var errNoneFits = errors.New("no session fits")

// chooseSession is the session that a command is about: the argument, or without one the
// session that fits.
func (inv *invocation) chooseSession(ctx context.Context, question, none string, tests ...func(api.Session) bool) (string, error) {
	return inv.argumentOr(func() (string, error) { return inv.fittingSession(ctx, question, none, tests...) })
}

// argumentOr is what the first argument names or, without one, what other finds.
func (inv *invocation) argumentOr(other func() (string, error)) (string, error) {
	if inv.NArg() > 0 {
		return inv.Args().First(), nil
	}
	return other()
}

// fittingSession is a session that passes the first of the tests that any session passes. Where
// several do, the user at the terminal is asked the question; where none does, the error's
// message is none.
func (inv *invocation) fittingSession(ctx context.Context, question, none string, tests ...func(api.Session) bool) (string, error) {
	st, err := inv.status(ctx)
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
		return inv.askSession(ctx, question, fit)
	}
	name, err := inv.onlySession()
	if err == nil || len(st.Sessions) == 0 {
		return name, err
	}
	return "", api.Errorf(api.CodeUsage, "%s", none).Because(errNoneFits).
		WithHint("name one: `tunctl %s SESSION`; available: %s", inv.Command.Name, strings.Join(sessionNames(st.Sessions), ", "))
}

func isNotDown(s api.Session) bool { return s.State != api.SessionDown }

func hasPage(s api.Session) bool { return s.URL != "" && s.IsUp() }

// mayHavePage reports whether a session is up and has more than fixed forwards.
func mayHavePage(s api.Session) bool {
	return s.IsUp() && s.App != api.AppShell && (s.Job != nil || s.Local != "" || len(s.Forwards) == 0)
}

func hasJob(s api.Session) bool { return s.Job != nil }

func sessionNames(list []api.Session) []string {
	return lists.Map(list, func(s api.Session) string { return s.Name })
}

// askSession has the user choose one of several sessions.
func (inv *invocation) askSession(ctx context.Context, question string, list []api.Session) (string, error) {
	names := sessionNames(list)
	if !inv.Interactive {
		return "", api.Errorf(api.CodeUsage, "%s needs the name of a session: there are several", inv.Command.Name).
			WithHint("available: %s", strings.Join(names, ", "))
	}
	width := slices.Max(lists.Map(names, term.TextWidth))
	rows := lists.Map(list, func(s api.Session) string {
		return fmt.Sprintf("%s  %s on %s", term.Pad(s.Name, width), words.Session(s, time.Now()), s.Host)
	})
	i, err := chooseRow(ctx, inv.Terminal, question, "a session's name", rows, func(i int, typed string) bool { return names[i] == typed })
	if err != nil {
		return "", err
	}
	return names[i], nil
}

// chooseRow lists rows and returns the index of the one that the user answers the question with, by its
// number or by a text that matches it; what names such a text. A Ctrl-C, or the end of input, is an error
// that ends the program.
func chooseRow(ctx context.Context, t *term.Terminal, question, what string, rows []string, matches func(row int, typed string) bool) (int, error) {
	for i, row := range rows {
		t.Say("%3d) %s", i+1, row)
	}
	for {
		text, err := t.ReadLine(ctx, fmt.Sprintf("%s [1-%d] ", question, len(rows)), true)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			t.Say("stopped; nothing was done")
			return 0, exitError(exitInterrupted)
		case errors.Is(err, io.EOF):
			t.Say("nothing was chosen")
			return 0, exitError(exitFailed)
		case err != nil:
			return 0, err
		}
		text = strings.TrimSpace(text)
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(rows) {
			return n - 1, nil
		}
		for i := range rows {
			if matches(i, text) {
				return i, nil
			}
		}
		t.Say("%q is not one of them: type a number from 1 to %d, or %s", text, len(rows), what)
	}
}

// onlySession is the name of the one session in the config.
func (inv *invocation) onlySession() (string, error) {
	cfg, err := loadConfig(inv.paths)
	if err != nil {
		return "", err
	}
	if len(cfg.Sessions) == 1 {
		return cfg.Sessions[0].Name, nil
	}
	if len(cfg.Sessions) == 0 {
		return "", api.Errorf(api.CodeConfig, "no sessions in %s", cfg.Path).
			WithHint("`tunctl init` adds one; `tunctl config edit` opens the file; %s", demoHint())
	}
	return "", api.Errorf(api.CodeUsage, "the config has several sessions: name one").
		WithHint("available: %s", strings.Join(configuredSessions(cfg), ", "))
}

// isHost reports whether the config or the ssh config has a host of that name.
func (inv *invocation) isHost(name string) bool {
	return slices.Contains(knownHosts(readConfig(inv.paths)), name)
}

// onlyHost is the only host in the config; it is an error where there are none or several.
func (inv *invocation) onlyHost() (string, error) {
	hosts, name := readConfig(inv.paths).HostNames(), inv.Command.Name
	needed := api.Errorf(api.CodeUsage, "%s needs a host", name)
	switch len(hosts) {
	case 1:
		return hosts[0], nil
	case 0:
		return "", needed.WithHint("name a host of your ssh config: `tunctl %s HOST`", name)
	}
	return "", needed.WithHint("available: %s", strings.Join(hosts, ", "))
}

// status is the agent's status or, where no agent is running, what is known without one: it
// never starts one.
func (inv *invocation) status(ctx context.Context) (st api.Status, err error) {
	if inv.Bool("refresh") {
		inv.Draw("asking the scheduler…")
		st, err = inv.client.Refresh(ctx, inv.Args().First())
		inv.Draw("")
	} else {
		st, err = inv.client.Status(ctx)
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return st, err
	}
	cfg, err := existingConfig(inv.paths)
	if err != nil {
		return api.Status{}, err
	}
	return inv.lastKnown(cfg), nil
}

// liveStatus is the status of the running agent, empty where there is none. One that hangs is an
// error: it may hold connections.
func liveStatus(ctx context.Context, cl *client.Client) (api.Status, error) {
	st, err := cl.Status(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return api.Status{}, nil
	}
	return st, err
}

// lastKnown is what is known without an agent.
func (inv *invocation) lastKnown(cfg *configs.Config) api.Status {
	st, err := session.LastKnown(cfg, inv.paths.StateFile())
	if err != nil {
		inv.Say("tunctl: warning: not all jobs may be known: %v", err)
	}
	return st
}

// onlyNamed is the status of the session that the argument names, if there is one.
func (inv *invocation) onlyNamed(st api.Status) (api.Status, error) {
	if inv.NArg() == 0 {
		return st, nil
	}
	s, ok := st.Session(inv.Args().First())
	if !ok {
		return st, unknownSession(inv.Args().First(), st)
	}
	return st.Only(s), nil
}

// unknownSession suggests the known sessions, the nearest first.
func unknownSession(name string, st api.Status) error {
	return api.Errorf(api.CodeUnknownSession, "no session %q", name).
		WithHint("%s", cmp.Or(suggest.Hint(name, sessionNames(st.Sessions)), "`tunctl init` adds one"))
}

// chooseJob has the user choose one of several jobs, by its number in the list or its id.
func chooseJob(ctx context.Context, t *term.Terminal, jobs []api.Candidate) (string, error) {
	rows := lists.Map(jobs, func(j api.Candidate) string {
		return fmt.Sprintf("%s %s %s %s", term.Pad(j.Job.ID, 12), term.Pad(api.Sanitize(j.Job.Name), 16), term.Pad(j.Job.Node, 10), strings.TrimSpace(j.App+" "+j.Serve))
	})
	i, err := chooseRow(ctx, t, "Connect to which job?", "a job id", rows, func(i int, typed string) bool {
		return jobs[i].Job.ID == typed || jobs[i].Job.Ref() == typed
	})
	if err != nil {
		return "", err
	}
	return jobs[i].Job.Ref(), nil
}
