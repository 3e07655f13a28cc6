package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/autostart"
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
}

// action is the action of a command. Ctrl-C ends the program at once.
func action(t *term.Terminal, f func(context.Context, *invocation) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		p, err := findPaths(c.String("config"))
		if err != nil {
			return err
		}
		return f(c.Context, &invocation{Context: c, Terminal: t, paths: p, client: client.New(p)})
	}
}

// interruptibleAction is the action of a command whose ctx Ctrl-C ends. The exit code is 130
// then, whatever the command returns.
func interruptibleAction(t *term.Terminal, f func(context.Context, *invocation) error) cli.ActionFunc {
	return action(t, func(outer context.Context, inv *invocation) error {
		ctx, stop := interruptible(outer)
		defer stop()
		err := f(ctx, inv)
		if outer.Err() == nil && ctx.Err() != nil {
			return silentError(exitInterrupted)
		}
		return err
	})
}

// interruptible ends ctx at Ctrl-C or SIGTERM, so that a command can restore the screen or
// close a window. A second signal ends the program at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// findPaths are tunctl's files, with this config file unless it is "".
func findPaths(config string) (home.Paths, error) {
	p, err := home.Find()
	if err != nil {
		return p, err
	}
	if config != "" {
		p.Config = config
	}
	// The agent runs in another folder than the command that names the file.
	p.Config, err = filepath.Abs(p.Config)
	return p, err
}

// connect starts the agent if none is running. It warns of a config with errors.
func (inv *invocation) connect(ctx context.Context) (api.Status, error) {
	st, err := ensureAgent(ctx, inv.Terminal, inv.client, inv.paths)
	if err == nil {
		warnAboutConfig(inv.Terminal, st)
	}
	return st, err
}

// ensureAgent starts the agent if none is running, and warns of one of another version.
func ensureAgent(ctx context.Context, t *term.Terminal, cl *client.Client, p home.Paths) (api.Status, error) {
	st, err := cl.Ensure(ctx, launcher(p))
	if err == nil {
		warnAboutVersion(t, st)
	}
	return st, err
}

// launcher starts an agent by the enabled login unit where there is one, so that
// the system keeps one agent and not two; else as a process of its own.
func launcher(p home.Paths) client.Launcher {
	return func(ctx context.Context) (<-chan error, error) {
		if !p.Moved && startUnit(ctx) {
			return nil, nil
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return client.Detached(p, self, "--config", p.Config, "agent", "run", "--background")(ctx)
	}
}

// startUnit starts the agent's login unit, if that is enabled, and reports whether it did.
func startUnit(ctx context.Context) bool {
	a, err := autostart.New(autostart.Options{})
	return err == nil && a.StartAgent(ctx) == nil
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

// atMostOne refuses a second argument.
func (inv *invocation) atMostOne(noun string) error {
	if inv.NArg() > 1 {
		return usagef("unexpected argument %q: %s takes one %s", inv.Args().Get(1), inv.Command.Name, noun)
	}
	return nil
}

// sessionName is the session that a command is about: the argument, or the only
// one in the config.
func (inv *invocation) sessionName() (string, error) {
	if err := inv.atMostOne("session"); err != nil {
		return "", err
	}
	if inv.NArg() == 1 {
		return inv.Args().First(), nil
	}
	return onlySession(inv.paths)
}

// onlySession is the name of the one session in the config.
func onlySession(p home.Paths) (string, error) {
	cfg, err := loadConfig(p)
	if err != nil {
		return "", err
	}
	if len(cfg.Sessions) == 1 {
		return cfg.Sessions[0].Name, nil
	}
	if len(cfg.Sessions) == 0 {
		return "", &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("no sessions in %s", p.Config), Hint: "`tunctl init` adds one; `tunctl config edit` opens the file; `tunctl demo` needs none"}
	}
	return "", &api.Error{Code: api.CodeUsage, Message: "the config has several sessions: name one", Hint: "available: " + joinNames(cfg)}
}

func joinNames(cfg *configs.Config) string {
	names := make([]string, len(cfg.Sessions))
	for i, s := range cfg.Sessions {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// onlyHost is the only host in the config; it is an error where there are none or several.
func (inv *invocation) onlyHost() (string, error) {
	var hosts []string
	if cfg, err := configs.Load(inv.paths.Config); err == nil {
		hosts = cfg.HostNames()
	}
	name := inv.Command.Name
	switch len(hosts) {
	case 1:
		return hosts[0], nil
	case 0:
		return "", &api.Error{Code: api.CodeUsage, Message: name + " needs a host", Hint: fmt.Sprintf("name a host of your ssh config: `tunctl %s HOST`", name)}
	}
	return "", &api.Error{Code: api.CodeUsage, Message: name + " needs a host", Hint: "available: " + strings.Join(hosts, ", ")}
}

// errNoConfig is wrapped when there is no config file.
var errNoConfig = errors.New("no config file")

// loadConfig reads the config for a command that needs one.
func loadConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := configs.Load(p.Config)
	return cfg, configError(p, err)
}

// configError explains why the config could not be read, if it could not.
func configError(p home.Paths, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("%v at %s", errNoConfig, p.Config), Err: errors.Join(errNoConfig, err),
			Hint: "`tunctl init` asks a few questions and creates one; `tunctl config edit` starts from an example; `tunctl demo` needs none",
		}
	}
	return &api.Error{Code: api.CodeConfig, Message: err.Error(), Err: err}
}

// existingConfig reads the config; where there is no file, it is empty.
func existingConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := loadConfig(p)
	if err != nil && errors.Is(err, errNoConfig) {
		return &configs.Config{Path: p.Config}, nil
	}
	return cfg, err
}
