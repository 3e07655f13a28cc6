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

// paths are tunctl's files, with --config taken into account.
func paths(c *cli.Context) (home.Paths, error) { return pathsWith(c.String("config")) }

// pathsWith are tunctl's files, with this config file unless it is "".
func pathsWith(config string) (home.Paths, error) {
	p, err := home.Find()
	if err != nil {
		return p, err
	}
	if config != "" {
		p.Config = config
	}
	// The agent lives in another folder than the command that names the file.
	p.Config, err = filepath.Abs(p.Config)
	return p, err
}

// connect returns a client of the agent, and starts one if none is running. It warns of a
// config that has errors.
func connect(ctx context.Context, t *term.Terminal, p home.Paths) (*client.Client, api.Status, error) {
	cl, st, err := reach(ctx, t, p)
	if err == nil {
		warnAboutConfig(t, st)
	}
	return cl, st, err
}

// reach is connect for a command that the agent refuses while the config has errors.
func reach(ctx context.Context, t *term.Terminal, p home.Paths) (*client.Client, api.Status, error) {
	cl := client.New(p)
	st, err := cl.Ensure(ctx, launcher(p))
	if err == nil {
		warnAboutVersion(t, st)
	}
	return cl, st, err
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

// warnAboutConfig says when the agent cannot use the config file as it is now.
func warnAboutConfig(t *term.Terminal, st api.Status) {
	if st.Config != nil {
		t.Say("tunctl: warning: the config has errors; changes take effect once they are fixed:\n%s", st.Config.Message)
	}
}

// interruptible ends ctx at Ctrl-C, or when the system asks the program to end: a
// screen is put back, a window closed. Asked a second time, the program ends at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// errNoConfig is wrapped when there is no config file.
var errNoConfig = errors.New("no config file")

// loadConfig reads the config for a command that needs one.
func loadConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := configs.Load(p.Config)
	return cfg, configError(p, err)
}

// configError is what kept the config from being read, if anything did.
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

// existingConfig is the config as it is; none is an empty one.
func existingConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := loadConfig(p)
	if err != nil && errors.Is(err, errNoConfig) {
		return &configs.Config{Path: p.Config}, nil
	}
	return cfg, err
}

// sessionName is the session that a command is about: the argument, or the only
// one in the config.
func sessionName(c *cli.Context, p home.Paths) (string, error) {
	switch c.NArg() {
	case 1:
		return c.Args().First(), nil
	case 0:
	default:
		return "", usagef("unexpected argument %q: %s takes one session", c.Args().Get(1), c.Command.Name)
	}
	return onlySession(p)
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
