package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/lab"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// demoSession is the session that the demo starts.
const demoSession = "jupyter"

//go:embed demo.toml
var demoConfig string

func demoCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "try tunctl on a practice cluster; no account needed",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "fetch the page, print its HTTP status and exit"},
			&cli.BoolFlag{Name: "page", Usage: "serve the built-in page even if Jupyter is installed"},
			&cli.BoolFlag{Name: "pbs", Usage: "use PBS instead of Slurm"},
			&cli.BoolFlag{Name: "no-open", Usage: "do not open the page in a browser"},
		},
		Action: func(c *cli.Context) error {
			if err := demoUnsupported(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, endSignals()...)
			defer stop() // a second signal does not end it before everything is removed
			d := &demo{term: t, once: c.Bool("once"), open: !c.Bool("no-open") && !c.Bool("once"), jupyter: !c.Bool("page")}
			if c.Bool("pbs") {
				d.dialect = lab.PBS
			}
			return d.run(ctx)
		},
	}
}

// demo is the whole program with a practice cluster and a home folder of its own.
type demo struct {
	term       *term.Terminal
	once, open bool
	dialect    string
	jupyter    bool
}

func (d *demo) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", home.DemoFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cluster, err := d.startCluster(dir, self)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	p, err := d.prepare(dir, cluster)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(filepath.Dir(p.Socket)) }() // elsewhere, where dir is too long for a socket
	inv := &invocation{Terminal: d.term, paths: p, client: client.New(p)}
	u := &up{invocation: inv, name: demoSession, wait: time.Minute}
	defer func() { err = errors.Join(err, d.cleanUp(u)) }()
	if err := u.start(ctx, d.open); err != nil {
		if ctx.Err() != nil || !errors.Is(err, desktop.ErrNotOpened) {
			return err
		}
		printError(d.term, err) // the page works all the same
	}
	if d.once {
		return d.fetch(ctx, u)
	}
	enter := enterDemo(p)
	if found, _ := exec.LookPath("tunctl"); found != self {
		enter += "\n\n  alias tunctl=" + posixsh.Typed(posixsh.Typed(self))
	}
	d.term.Say("This is a practice cluster on your own machine. Paste this into another terminal:\n\n"+
		"  %s\n\nThen look around there: tunctl status, tunctl status --watch, tunctl dashboard,\n"+
		"tunctl ssh jupyter, tunctl help.\nCtrl-C ends it.", enter)
	<-ctx.Done()
	d.term.Say("\nending the demo: its job, agent and files are removed")
	return nil
}

// enterDemo is what leads the commands of a shell to a demo.
func enterDemo(p home.Paths) string {
	return "export TUNCTL_HOME=" + posixsh.Typed(filepath.Dir(p.State))
}

// demoHint says how to try tunctl without an account, or how to enter the demo that is running.
func demoHint() string { return cmp.Or(runningDemo(), trialHint) }

// runningDemo says that a demo is running and how to enter it; "" without one, or where TUNCTL_HOME is set.
func runningDemo() string {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), home.DemoFolder+"*")) // the pattern is valid
	for _, dir := range dirs {
		p := home.In(filepath.Join(dir, "home"))
		if os.Getenv("TUNCTL_HOME") != "" || home.CheckOwned(dir) != nil || !isPractice(p) {
			continue
		}
		if _, err := client.New(p).Status(context.Background()); err == nil {
			return fmt.Sprintf("a practice cluster is running: `%s` takes this terminal to it", enterDemo(p))
		}
	}
	return ""
}

func (d *demo) startCluster(dir, self string) (*lab.Cluster, error) {
	started := time.Now()
	cluster, err := lab.Start(lab.Options{
		Dir: filepath.Join(dir, "cluster"), Dialect: d.dialect, Jupyter: d.jupyter, PageCommand: []string{self, practicePage}, Demo: true,
		Hides: forwardsOf(client.New(home.In(filepath.Join(dir, "home")))),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start the practice cluster: %w", err)
	}
	d.term.Say("%s %s %s", d.term.Paint(term.Green, "✓"), term.Pad("practice cluster on this machine", 44), d.term.Paint(term.Grey, show.Stopwatch(time.Since(started))))
	return cluster, nil
}

// forwardsOf reports whether an agent's own forwards listen on a port of this computer, which is also
// the practice cluster's nodes.
func forwardsOf(agent *client.Client) func(port int) bool {
	return func(port int) bool {
		st, _ := agent.Status(context.Background()) // without an agent there are none
		all := slices.Concat(lists.Map(st.Sessions, func(s api.Session) []api.Forward { return s.Forwards })...)
		return slices.ContainsFunc(all, func(f api.Forward) bool {
			return f.Kind != api.ForwardRemote && strings.HasSuffix(f.Listen, ":"+strconv.Itoa(port))
		})
	}
}

// prepare makes a home for the demo, and sets it for this process and those that it starts.
func (d *demo) prepare(dir string, cluster *lab.Cluster) (home.Paths, error) {
	for name, value := range map[string]string{
		"TUNCTL_HOME":       filepath.Join(dir, "home"),
		"TUNCTL_CONFIG":     "",
		"TUNCTL_SSH_CONFIG": cluster.SSHConfig(),
		"SSH_AUTH_SOCK":     "", // the demo must not use the user's own keys
	} {
		if err := os.Setenv(name, value); err != nil {
			return home.Paths{}, err
		}
	}
	p, err := home.Find()
	if err != nil {
		return p, err
	}
	if err := home.MakePrivate(filepath.Dir(p.Config)); err != nil {
		return p, err
	}
	// Commands in another terminal know of the cluster by the config alone.
	text := fmt.Sprintf("ssh_config = %s\n\n%s", configs.Quote(cluster.SSHConfig()), demoConfig)
	return p, errors.Join(os.WriteFile(practiceMark(p), nil, 0o600), os.WriteFile(p.Config, []byte(text), 0o600))
}

// fetch gets the page through the forward.
func (d *demo) fetch(ctx context.Context, u *up) error {
	page, err := u.client.Page(ctx, u.name)
	if err != nil {
		return err
	}
	status, err := lab.Fetch(ctx, page.URL)
	if err != nil {
		return fmt.Errorf("cannot fetch the page: %s", api.Redact(err.Error()))
	}
	fmt.Fprintln(d.term.Out, status)
	return nil
}

// cleanUp ends the agent, whatever else happened, unless the user stopped it. The job ends
// with the cluster.
func (d *demo) cleanUp(u *up) error {
	_ = os.WriteFile(practiceMark(u.paths), []byte(demoOver), 0o600) // for a shell that ends now
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := u.client.Stop(ctx); !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}

// practicePage is the hidden command that serves the page in the practice cluster's job.
const practicePage = "practice-page"

func practicePageCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:            practicePage,
		Usage:           "serve the practice cluster's page",
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			return lab.ServePage(c.Context, c.Args().Slice(), t.Out)
		},
	}
}
