package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"gopkg.in/natefinch/lumberjack.v2"

	"tunctl/internal/agent"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/tunnel"
)

// stopTimeout is how long an agent may take to end.
const stopTimeout = 15 * time.Second

func agentCommand(t *term.Terminal) *cli.Command {
	action := func(f func(*cli.Context, *term.Terminal, home.Paths) error) cli.ActionFunc {
		return func(c *cli.Context) error {
			p, err := paths(c)
			if err != nil {
				return err
			}
			return f(c, t, p)
		}
	}
	return &cli.Command{
		Name:  "agent",
		Usage: "control the background process that keeps sessions up",
		Subcommands: []*cli.Command{
			{
				Name: "run", Usage: "run the agent in this terminal",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "background", Hidden: true, Usage: "log to the log file only"}},
				Action: action(agentRun),
			},
			{Name: "start", Usage: "start the agent in the background", Action: action(agentStart)},
			{Name: "stop", Usage: "stop the agent; jobs keep running", Action: action(agentStop)},
			{Name: "restart", Usage: "restart the agent; sessions reconnect", Action: action(agentRestart)},
			{
				Name: "status", Usage: "show whether the agent is running; exit code 5 if not",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
				Action: action(agentStatus),
			},
			{
				Name: "log", Usage: "show the agent's log",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep showing new lines until Ctrl-C"}},
				Action: action(agentLog),
			},
		},
	}
}

func agentRun(c *cli.Context, t *term.Terminal, p home.Paths) error {
	term.CloseOwnConsole()
	if err := home.MakePrivate(p.State); err != nil {
		return err
	}
	file := &lumberjack.Logger{Filename: p.Log(), MaxSize: 5, MaxBackups: 2}
	defer func() { _ = file.Close() }()
	out := io.MultiWriter(file, t.Err)
	if c.Bool("background") {
		out = file
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: logLevel()}))
	followProgram(c.Context, p, log)
	o := agent.Options{Paths: p, Version: version(), SSHConfig: os.Getenv("TUNCTL_SSH_CONFIG"), Limits: agent.DefaultLimits(), Log: log}
	if practising(p, log) {
		o.Practice, o.Limits = isPracticeAddress, agent.PracticeLimits()
	}
	a, err := agent.New(o)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(tunnel.GCPercent)
	}
	// The first signal drains; the handler is gone then, so a second one ends the
	// process at once.
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	err = a.Serve(ctx)
	if errors.Is(err, agent.ErrRunning) {
		t.Say("%v", err)
		return nil
	}
	return err
}

func logLevel() slog.Level {
	if os.Getenv("TUNCTL_DEBUG") != "" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// practising reports whether the agent serves a practice cluster, whose limits are
// quick. A person's own agent never does.
func practising(p home.Paths, log *slog.Logger) bool {
	switch {
	case os.Getenv("TUNCTL_PRACTICE") == "":
		return false
	case !p.Moved:
		log.Warn("TUNCTL_PRACTICE is ignored without TUNCTL_HOME")
		return false
	}
	log.Warn("practice limits apply: hosts outside the practice cluster are refused")
	return true
}

func agentStart(c *cli.Context, t *term.Terminal, p home.Paths) error {
	_, st, err := connect(c.Context, t, p)
	if err != nil {
		return err
	}
	t.Say("the agent is running (pid %d)", st.Agent.PID)
	return nil
}

func agentStop(c *cli.Context, t *term.Terminal, p home.Paths) error {
	ctx, cancel := context.WithTimeout(c.Context, stopTimeout)
	defer cancel()
	cl := client.New(p)
	err := cl.Stop(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		t.Say("the agent is not running")
		return nil
	}
	if err != nil {
		return err
	}
	if err := cl.AwaitGone(ctx); err != nil {
		return err
	}
	t.Say("the agent has stopped; jobs keep running")
	return nil
}

func agentRestart(c *cli.Context, t *term.Terminal, p home.Paths) error {
	if err := warnAboutLogins(c.Context, t, p); err != nil {
		return err
	}
	if err := agentStop(c, t, p); err != nil {
		return err
	}
	return agentStart(c, t, p)
}

// warnAboutLogins names the hosts that need an interactive login again after a restart,
// and asks for confirmation on a terminal.
func warnAboutLogins(ctx context.Context, t *term.Terminal, p home.Paths) error {
	st, err := client.New(p).Status(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return nil // nothing runs that could lose a login
	}
	if err != nil {
		return err
	}
	var hosts []string
	for _, h := range st.Hosts {
		if h.State == api.HostUp && h.Auth != "publickey" && h.Auth != "hostbased" && h.Transport != api.TransportMaster {
			hosts = append(hosts, h.Alias)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	t.Say("after the restart you have to log in again to: %s", strings.Join(hosts, ", "))
	if !t.Interactive {
		return nil
	}
	answer, err := t.ReadLine(ctx, "Restart the agent anyway? [y/N] ", true)
	if err == nil && !strings.HasPrefix(strings.ToLower(answer), "y") {
		err = silentError(exitFailed)
	}
	return err
}

func agentStatus(c *cli.Context, t *term.Terminal, p home.Paths) error {
	st, err := client.New(p).Status(c.Context)
	if errors.Is(err, client.ErrNotRunning) {
		t.Say("the agent is not running")
		if c.Bool("json") {
			if err := t.PrintJSON(struct{}{}); err != nil {
				return err
			}
		}
		return silentError(exitAgent)
	}
	if err != nil {
		return err
	}
	warnAboutVersion(t, st)
	if c.Bool("json") {
		return t.PrintIndentedJSON(st.Agent)
	}
	_, err = fmt.Fprintf(t.Out, "running: pid %d, version %s, since %s\n", st.Agent.PID, st.Agent.Version, st.Agent.Since.Local().Format("Mon 15:04"))
	return err
}

// agentLog prints the agent's log and, with -f, what is added to it.
func agentLog(c *cli.Context, t *term.Terminal, p home.Paths) error {
	ctx, stop := interruptible(c.Context)
	defer stop()
	f, err := os.Open(p.Log())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.Copy(t.Out, f); err != nil || !c.Bool("follow") {
			return err
		}
		select {
		case <-ctx.Done():
			return silentError(exitInterrupted)
		case <-tick.C:
		}
	}
}
