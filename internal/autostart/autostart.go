// Package autostart makes tunctl start when its person logs in: the agent, so that
// tunnels come back, and the tray, so that there is an icon to click.
//
// It owns the files and keys that each system reads at login: a systemd user unit
// or an XDG autostart entry on Linux, LaunchAgents on macOS, the Run key on
// Windows. It starts and stops nothing now: switching it off leaves what runs.
package autostart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Part is one of the two programs that start at login.
type Part string

// The parts of tunctl.
const (
	Agent Part = "agent"
	Tray  Part = "tray"
)

// words are the part's arguments to tunctl.
func (p Part) words() []string {
	if p == Agent {
		return []string{"agent", "run"}
	}
	return []string{"tray"}
}

// title names the part in a list of startup programs.
func (p Part) title() string {
	if p == Agent {
		return "tunctl agent"
	}
	return "tunctl tray"
}

// Entry is how one part is set to start.
type Entry struct {
	Part      Part   `json:"part"`
	Kind      string `json:"kind"`              // "systemd", "xdg", "launchd" or "registry"
	Path      string `json:"path"`              // the file, or the key
	Installed bool   `json:"installed"`         // it is there
	Enabled   bool   `json:"enabled"`           // and would be started
	Stale     bool   `json:"stale"`             // but not as this tunctl would write it
	Program   string `json:"program,omitempty"` // what it starts
}

// State is how start at login is set.
type State struct {
	On      bool    `json:"on"` // every part starts, and starts this tunctl
	Entries []Entry `json:"entries"`
}

// Options say what is to start, and in whose folders.
type Options struct {
	Program string // tunctl's absolute path; default: this program's
	// ConfigDir is $XDG_CONFIG_HOME, RuntimeDir $XDG_RUNTIME_DIR, and HomeDir the
	// home. Their defaults are the person's own.
	ConfigDir, RuntimeDir, HomeDir string
	// Run runs systemctl or launchctl. Default: for real.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// System is "linux", "darwin" or "windows". Default: this one.
	System string
}

// Autostart switches start at login.
type Autostart struct {
	program string
	sets    []set
}

// set is one way to start a part. At any time at most one set of a part is wanted.
type set interface {
	wanted() bool // whether this is the way for this machine
	install(ctx context.Context, program string) error
	remove(ctx context.Context) error
	entry(ctx context.Context, program string) (Entry, error)
}

// New fills in defaults and looks at nothing yet.
func New(o Options) (*Autostart, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	a := &Autostart{program: o.Program}
	switch o.System {
	case "darwin":
		a.sets = launchdSets(o)
	case "windows":
		a.sets = registrySets(openRegistry())
	default:
		a.sets = linuxSets(o)
	}
	return a, nil
}

func (o *Options) fill() error {
	o.System = cmp.Or(o.System, runtime.GOOS)
	o.RuntimeDir = cmp.Or(o.RuntimeDir, os.Getenv("XDG_RUNTIME_DIR"))
	if o.Run == nil {
		o.Run = run
	}
	var err error
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("cannot find the path of this program: %w", err)
		}
	}
	if !filepath.IsAbs(o.Program) {
		return fmt.Errorf("start at login needs the program's absolute path, not %q", o.Program)
	}
	if o.HomeDir == "" {
		if o.HomeDir, err = os.UserHomeDir(); err != nil {
			return fmt.Errorf("cannot find the home folder: %w", err)
		}
	}
	o.ConfigDir = cmp.Or(o.ConfigDir, os.Getenv("XDG_CONFIG_HOME"), filepath.Join(o.HomeDir, ".config"))
	return nil
}

// run runs a program for at most a few seconds: systemctl waits without limit for
// a manager that hangs.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return out, nil
}

// On makes both parts start at login, as this program. Doing it again renews what
// is there.
func (a *Autostart) On(ctx context.Context) error {
	var errs []error
	for _, s := range a.sets {
		if s.wanted() {
			errs = append(errs, s.install(ctx, a.program))
		} else {
			errs = append(errs, s.remove(ctx))
		}
	}
	return errors.Join(errs...)
}

// Off removes every trace of start at login.
func (a *Autostart) Off(ctx context.Context) error {
	var errs []error
	for _, s := range a.sets {
		errs = append(errs, s.remove(ctx))
	}
	return errors.Join(errs...)
}

// Status tells what is set.
func (a *Autostart) Status(ctx context.Context) (State, error) {
	state := State{On: true, Entries: []Entry{}}
	starts := map[Part]bool{}
	for _, s := range a.sets {
		e, err := s.entry(ctx, a.program)
		if err != nil {
			return State{}, err
		}
		if e.Installed || s.wanted() {
			state.Entries = append(state.Entries, e)
		}
		starts[e.Part] = starts[e.Part] || e.Installed && e.Enabled && !e.Stale
	}
	for _, ok := range starts {
		state.On = state.On && ok
	}
	return state, nil
}

// IsOn reports whether every part starts at login, as this tunctl.
func (a *Autostart) IsOn(ctx context.Context) (bool, error) {
	state, err := a.Status(ctx)
	return state.On, err
}

// Follow renews entries that start a program which is no longer there, so that
// tunctl still starts after it was moved. Entries of a tunctl that exists are left
// to it: a second copy must not take them over.
func (a *Autostart) Follow(ctx context.Context) error {
	state, err := a.Status(ctx)
	if err != nil {
		return err
	}
	for _, e := range state.Entries {
		if e.Stale && e.Enabled && e.Program != "" && e.Program != a.program && !exists(e.Program) {
			return a.On(ctx)
		}
	}
	return nil
}
