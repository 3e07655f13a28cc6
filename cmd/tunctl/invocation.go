package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// invocation is what a command works with: what was typed, the terminal, tunctl's files, and
// a client of the agent, which may not be running.
type invocation struct {
	*cli.Context
	*term.Terminal
	paths  home.Paths
	client *client.Client

	asked []api.PromptKind // what the last login asked for
}

// runFunc is what a command does.
type runFunc func(context.Context, *invocation) error

// invoke is the action of a command. Ctrl-C ends the program at once, unless f calls
// interruptible.
func invoke(t *term.Terminal, f runFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		p, err := findPaths(c.String("config"))
		if err != nil {
			return err
		}
		return f(c.Context, &invocation{Context: c, Terminal: t, paths: p, client: client.New(p)})
	}
}

// invokeInterruptible is the action of a command whose ctx Ctrl-C ends. The exit code is 130
// then, whatever the command returns.
func invokeInterruptible(t *term.Terminal, f runFunc) cli.ActionFunc {
	return invoke(t, func(outer context.Context, inv *invocation) error {
		ctx, stop := interruptible(outer)
		defer stop()
		err := f(ctx, inv)
		if outer.Err() == nil && ctx.Err() != nil {
			return exitError(exitInterrupted)
		}
		return err
	})
}

// takes refuses fewer and more arguments than a command has, and says which those are.
func takes(least, most int, usage string, f runFunc) runFunc {
	return func(ctx context.Context, inv *invocation) error {
		if n := inv.NArg(); n < least || n > most {
			return usagef("%s", usage)
		}
		return f(ctx, inv)
	}
}

// atMost refuses more arguments than n, which are what.
func atMost(n int, what string, f runFunc) runFunc {
	return func(ctx context.Context, inv *invocation) error {
		if inv.NArg() > n {
			return usagef("unexpected argument %q: %s takes %s", inv.Args().Get(n), inv.Command.Name, what)
		}
		return f(ctx, inv)
	}
}

// ofHost is a command about a host: the first argument or, without one, the only host in the config.
func ofHost(f func(ctx context.Context, inv *invocation, host string) error) runFunc {
	return func(ctx context.Context, inv *invocation) error {
		host, err := inv.argumentOr(inv.onlyHost)
		if err != nil {
			return err
		}
		return f(ctx, inv, host)
	}
}

// interruptible ends ctx at Ctrl-C or SIGTERM, so that a command can restore the screen or
// close a window. A second signal ends the program at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// findPaths are tunctl's files, with this config file or, where it is "", that of TUNCTL_CONFIG.
func findPaths(config string) (home.Paths, error) {
	p, err := home.Find()
	if err != nil {
		return p, err
	}
	if config = cmp.Or(config, os.Getenv("TUNCTL_CONFIG")); config != "" {
		p.Config, p.Chosen = config, true
	}
	// The agent runs in another folder than the command that names the file.
	p.Config, err = filepath.Abs(p.Config)
	return p, err
}

// ensureAgent starts the agent if none is running, and warns of a config with errors.
func (inv *invocation) ensureAgent(ctx context.Context) (api.Status, error) {
	st, err := startAgent(ctx, inv.Terminal, inv.client, inv.paths)
	if err == nil {
		warnAboutConfig(inv.Terminal, st)
	}
	return st, err
}

// startAgent starts the agent if none is running, and warns of one of another version.
func startAgent(ctx context.Context, t *term.Terminal, cl *client.Client, p home.Paths) (api.Status, error) {
	st, err := cl.Ensure(ctx, func(ctx context.Context) (<-chan error, error) {
		if s, err := state.Open(p.StateFile()); err == nil && s.Unread() != nil { // else the agent says it
			t.Say("tunctl: warning: %v; `tunctl doctor` says what to do", s.Unread())
		}
		return launcher(p)(ctx)
	})
	if err == nil {
		warnAboutVersion(t, st)
	}
	return st, err
}

// launcher starts the agent through its login unit if that is enabled, so that the system
// runs one agent and not two; otherwise as a process of its own.
func launcher(p home.Paths) client.Launcher {
	return func(ctx context.Context) (<-chan error, error) {
		if a, err := newAutostart(); !p.Moved && err == nil && a.StartAgent(ctx) == nil {
			return nil, nil
		}
		return client.Detached(p, "--config", p.Config, "agent", "run", "--background")(ctx)
	}
}

// warnAboutVersion warns when the running agent is of another version than this program.
func warnAboutVersion(t *term.Terminal, st api.Status) {
	if st.Agent != nil && st.Agent.Version != version() {
		t.Say("tunctl: the running agent is version %s, this program is version %s; `tunctl agent restart` updates the agent", st.Agent.Version, version())
	}
}

// warnAboutConfig warns when the agent cannot use the config file as it is now.
func warnAboutConfig(t *term.Terminal, st api.Status) {
	if st.Config != nil {
		t.Say("tunctl: warning: the config has errors; changes take effect once they are fixed:\n%s", st.Config.Message)
	}
}

// warnAboutPause warns when the agent restores nothing until the user acts.
func warnAboutPause(t *term.Terminal, st api.Status) {
	if st.Agent != nil && st.Agent.Paused != nil {
		t.Say("tunctl: warning: %s; `tunctl up` connects again, `tunctl agent log` shows what happened before", st.Agent.Paused.Message)
	}
}

// noAgent is what status and down say where no agent is running.
const noAgent = "the agent is not running: nothing is up; jobs are not affected"

// warnAboutOutdated warns of connections whose settings have changed since.
func warnAboutOutdated(t *term.Terminal, list []api.Host) {
	for _, h := range list {
		if h.Outdated != "" {
			t.Say("tunctl: warning: %s: %s", h.Alias, h.Outdated)
		}
	}
}

// stopTimeout is how long an agent may take to end.
const stopTimeout = 15 * time.Second

// endSignals are the signals that end a demo or an agent in order. A closed window is one, and
// so is a logout, unless the signal is ignored, as with nohup.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
