package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/agent"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/socket"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/logfile"
	"tunctl/internal/term"
	"tunctl/tunnel"
)

func agentCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "agent",
		Usage: "control the background process that keeps sessions up",
		Subcommands: []*cli.Command{
			{
				Name: "run", Usage: "run the agent in this terminal",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "background", Hidden: true, Usage: "log to the log file only"}},
				Action: invoke(t, agentRun),
			},
			{Name: "start", Usage: "start the agent in the background", Action: invoke(t, agentStart)},
			{Name: "stop", Usage: "stop the agent; jobs keep running, shells end", Action: invoke(t, agentStop)},
			{Name: "restart", Usage: "restart the agent; sessions reconnect, shells end", Action: invoke(t, agentRestart)},
			{
				Name: "status", Usage: "show whether the agent is running; exit code 5 if not",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
				Action: invoke(t, agentStatus),
			},
			{
				Name: "log", Usage: "show the agent's log",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep showing new lines until Ctrl-C"}},
				Action: invokeInterruptible(t, agentLog),
			},
		},
	}
}

func agentRun(ctx context.Context, inv *invocation) error {
	p := inv.paths
	term.CloseOwnConsole()
	if err := home.MakePrivate(p.State); err != nil {
		return err
	}
	file := &logfile.File{Path: p.Log(), Max: 5 << 20, Old: 2}
	defer func() { _ = file.Close() }()
	out := io.MultiWriter(file, inv.Err)
	if inv.Bool("background") {
		out = file // as standard error is
	} else if err := logCrashes(p.Log()); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: logLevel()}))
	updateAutostart(ctx, p, log)
	o := agent.Options{Paths: p, Version: version(), SSHConfig: os.Getenv("TUNCTL_SSH_CONFIG"), Limits: session.DefaultLimits(), Log: log}
	if isPractice(p) {
		log.Warn("practice limits apply: hosts outside the practice cluster are refused")
		o.Practice, o.Limits = isPracticeAddress, session.PracticeLimits()
	}
	a, err := agent.New(o)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(tunnel.GCPercent)
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...) // the first signal drains
	defer stop()
	context.AfterFunc(ctx, stop)
	if p.Dashboard() != "" { // whose address may be a bookmark
		if _, err := dashboardLauncher(p)(ctx); err != nil {
			log.Warn("cannot start the dashboard", "err", err)
		}
	}
	err = a.Serve(ctx)
	if errors.Is(err, socket.ErrRunning) {
		inv.Say("%v", err)
		return nil
	}
	return err
}

// logCrashes has the trace of a crash written to the log file, too: systemd and launchd
// keep standard error elsewhere, or not at all.
func logCrashes(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}

func logLevel() slog.Level {
	if os.Getenv("TUNCTL_DEBUG") != "" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func agentStart(ctx context.Context, inv *invocation) error {
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return err
	}
	inv.Say("the agent is running (pid %d)", st.Agent.PID)
	warnAboutPause(inv.Terminal, st)
	return nil
}

// anyAgent is a client of the agent that is running, whatever its config file is.
func (inv *invocation) anyAgent() *client.Client {
	p := inv.paths
	p.Chosen = false
	return client.New(p)
}

// statusTimeout bounds how long a stop waits to learn what ends with the agent: one that hangs is
// stopped, too.
const statusTimeout = 2 * time.Second

func agentStop(ctx context.Context, inv *invocation) error {
	asking, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if st, err := inv.anyAgent().Status(asking); err == nil {
		if err := confirmEnd(ctx, inv, "Stop the agent anyway?", endingText(st.Agent)); err != nil {
			return err
		}
	}
	return stopAgent(ctx, inv)
}

func stopAgent(ctx context.Context, inv *invocation) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := inv.anyAgent().Stop(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		inv.Say("the agent is not running")
		return nil
	}
	if err == nil {
		inv.Say("the agent has stopped; jobs keep running")
	}
	return err
}

// agentRestart restarts the agent, which logs in at once where that needs nobody: the user asked
// for the restart, so the last login may have been a moment ago.
func agentRestart(ctx context.Context, inv *invocation) error {
	st, err := inv.anyAgent().Status(ctx)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	silent, interactive := connectedHosts(st)
	logins := ""
	if len(interactive) > 0 {
		logins = "after the restart you have to log in again to: " + strings.Join(interactive, ", ")
	}
	if err := confirmEnd(ctx, inv, "Restart the agent anyway?", logins, endingText(st.Agent)); err != nil {
		return err
	}
	if err := stopAgent(ctx, inv); err != nil {
		return err
	}
	if err := agentStart(ctx, inv); err != nil {
		return err
	}
	for _, host := range silent {
		if _, err := inv.client.Login(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// connectedHosts are the hosts that the agent is connected to, by whether a login there needs
// nobody.
func connectedHosts(st api.Status) (silent, interactive []string) {
	for _, h := range st.Hosts {
		switch {
		case h.State != api.HostUp:
		case h.Auth == "publickey" || h.Auth == "hostbased":
			silent = append(silent, h.Alias)
		default:
			interactive = append(interactive, h.Alias)
		}
	}
	return silent, interactive
}

// endingText names the streams that end with the agent; "": there are none.
func endingText(agent *api.Agent) string {
	if agent == nil || len(agent.Streams) == 0 {
		return ""
	}
	kinds := map[api.StreamKind]string{api.StreamGateway: "shells and editors", api.StreamSFTP: "copies", api.StreamDial: "connections"}
	count := map[string]int{}
	for _, s := range agent.Streams {
		count[kinds[s.Kind]+" on "+cmp.Or(s.Session, api.HostLabel(s.Host))]++
	}
	var texts []string
	for _, what := range slices.Sorted(maps.Keys(count)) {
		texts = append(texts, fmt.Sprintf("%s (%d)", what, count[what]))
	}
	return "these end with the agent: " + strings.Join(texts, ", ")
}

// confirmEnd says what the end of the agent means, and asks for confirmation on a terminal.
func confirmEnd(ctx context.Context, inv *invocation, question string, means ...string) error {
	means = slices.DeleteFunc(means, func(text string) bool { return text == "" })
	for _, text := range means {
		inv.Say("%s", text)
	}
	return confirm(ctx, inv.Terminal, len(means) == 0, question, "the agent keeps running")
}

func agentStatus(ctx context.Context, inv *invocation) error {
	st, err := inv.anyAgent().Status(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		inv.Say("the agent is not running")
		if inv.Bool("json") {
			if err := inv.PrintJSON(struct{}{}); err != nil {
				return err
			}
		}
		return exitError(exitAgent)
	}
	if err != nil {
		return err
	}
	warnAboutVersion(inv.Terminal, st)
	warnAboutPause(inv.Terminal, st)
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(st.Agent)
	}
	_, err = fmt.Fprintf(inv.Out, "running: pid %d, version %s, since %s\n", st.Agent.PID, st.Agent.Version, api.ClockText(st.Agent.Since, time.Now()))
	return err
}

// logPoll is how often a followed log is read.
const logPoll = 300 * time.Millisecond

// agentLog prints the agent's log and, with -f, what is added to it.
func agentLog(ctx context.Context, inv *invocation) error {
	f, err := os.Open(inv.paths.Log())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		_, err := io.Copy(inv.Out, f)
		if err != nil || !inv.Bool("follow") || ctxtime.Sleep(ctx, logPoll) != nil {
			return err
		}
	}
}
