// Package autostart starts tunctl when its user logs in: the agent, which restores
// tunnels, and the tray.
//
// It owns the files and keys that each system reads at login: a systemd user unit
// or an XDG autostart entry on Linux, LaunchAgents on macOS, a task and the Run key
// on Windows. It starts and stops nothing now: switching it off leaves what runs.
package autostart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tunctl/internal/atomicfile"
	"tunctl/internal/nowindow"
)

// Part is one of the two programs that start at login.
type Part string

// The parts of tunctl.
const (
	Agent Part = "agent"
	Tray  Part = "tray"
)

// args are the arguments of tunctl for the part.
func (p Part) args() []string {
	return map[Part][]string{Agent: {"agent", "run"}, Tray: {"tray"}}[p]
}

// Entry is how one part is set to start.
type Entry struct {
	Part      Part   `json:"part"`
	Kind      string `json:"kind"`              // "systemd", "xdg", "launchd", "task" or "registry"
	Path      string `json:"path"`              // the file, or the key
	Installed bool   `json:"installed"`         // it exists
	Enabled   bool   `json:"enabled"`           // and the system starts it
	Stale     bool   `json:"stale"`             // but this tunctl would write it differently
	Program   string `json:"program,omitempty"` // what it starts
}

// State is the setting of start at login.
type State struct {
	On      bool    `json:"on"` // every part starts, and starts this tunctl
	Entries []Entry `json:"entries"`
}

// machine is what to start, and where it is started from.
type machine struct {
	system     string // "linux", "darwin" or "windows"
	program    string // tunctl's absolute path
	configDir  string // $XDG_CONFIG_HOME
	runtimeDir string // $XDG_RUNTIME_DIR
	homeDir    string
	run        runner
	noTray     bool
}

// runner runs systemctl, launchctl or schtasks.
type runner func(ctx context.Context, name string, args ...string) ([]byte, error)

// Autostart switches start at login.
type Autostart struct {
	program string
	methods []method
	keeper  supervisor // nil: only starts the agent
}

// method is one way to start a part. At most one method of a part is wanted.
type method interface {
	wanted() bool // whether this machine uses it
	install(ctx context.Context, program string) error
	remove(ctx context.Context) error
	entry(ctx context.Context, program string) (Entry, error)
}

// supervisor is a method that starts the agent again after a crash.
type supervisor interface {
	method
	start(ctx context.Context) error // now
}

// New returns start at login for this program. It reads nothing yet. Without a tray, that is left out, on
// macOS: builds without cgo have no icon there.
func New(noTray bool) (*Autostart, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the path of this program: %w", err)
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("cannot find the home folder: %w", err)
	}
	return newFor(machine{
		system: runtime.GOOS, program: program, run: run, noTray: noTray, homeDir: dir,
		configDir:  cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(dir, ".config")),
		runtimeDir: os.Getenv("XDG_RUNTIME_DIR"),
	})
}

func newFor(m machine) (*Autostart, error) {
	a := &Autostart{program: m.program}
	switch m.system {
	case "darwin":
		a.methods = []method{newLaunchAgent(Agent, m, true), newLaunchAgent(Tray, m, !m.noTray)}
	case "windows":
		user, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("cannot find out who you are: %w", err)
		}
		t := &task{user: user.Uid, dir: filepath.Join(os.Getenv("SystemRoot"), "System32", "Tasks"), run: m.run}
		a.methods, a.keeper = windowsMethods(t, openRegistry()), t
	default:
		// Linux and BSD: systemd for the agent if the user has one, the desktop's autostart folder for everything else.
		u := newUnit(m)
		agent := newDesktopEntry(Agent, m, func() bool { return !u.wanted() })
		a.methods, a.keeper = []method{u, agent, newDesktopEntry(Tray, m, func() bool { return true })}, u
	}
	return a, nil
}

// run runs a program for a few seconds at most: systemctl waits for ever for a manager
// that hangs.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	nowindow.Set(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return out, nil
}

// On makes the parts of this program start at login, and renews existing entries.
func (a *Autostart) On(ctx context.Context) error { return a.set(ctx, true) }

// Off removes all entries.
func (a *Autostart) Off(ctx context.Context) error { return a.set(ctx, false) }

func (a *Autostart) set(ctx context.Context, on bool) error {
	var errs []error
	for _, m := range a.methods {
		if on && m.wanted() {
			errs = append(errs, m.install(ctx, a.program))
		} else {
			errs = append(errs, m.remove(ctx))
		}
	}
	return errors.Join(errs...)
}

// Status returns the setting.
func (a *Autostart) Status(ctx context.Context) (State, error) {
	state := State{On: true, Entries: []Entry{}}
	wanted, starts := map[Part]bool{}, map[Part]bool{}
	for _, m := range a.methods {
		e, err := m.entry(ctx, a.program)
		if err != nil {
			return State{}, err
		}
		if e.Installed || m.wanted() {
			state.Entries = append(state.Entries, e)
		}
		wanted[e.Part] = wanted[e.Part] || m.wanted()
		starts[e.Part] = starts[e.Part] || e.Installed && e.Enabled && !e.Stale
	}
	for part := range wanted {
		state.On = state.On && (starts[part] || !wanted[part])
	}
	return state, nil
}

// IsOn reports whether every part starts at login, as this tunctl.
func (a *Autostart) IsOn(ctx context.Context) (bool, error) {
	state, err := a.Status(ctx)
	return state.On, err
}

// Unsupervised reports whether the agent starts at login and nothing starts it again after
// a crash: desktop entries and the Run key of Windows only start. Whether the Task Scheduler
// of Windows takes a crash for a failure is not documented, so it does not count.
func (a *Autostart) Unsupervised(ctx context.Context) (bool, error) {
	state, err := a.Status(ctx)
	return slices.ContainsFunc(state.Entries, func(e Entry) bool {
		return e.Part == Agent && e.Enabled && !e.Stale && (e.Kind == "xdg" || e.Kind == "registry" || e.Kind == "task")
	}), err
}

// Follow renews entries whose program no longer exists, so that tunctl still starts
// after it was moved, and removes those for a part that this build does not have. Entries
// of another tunctl that exists stay: a second copy must not take them over.
func (a *Autostart) Follow(ctx context.Context) error {
	for _, m := range a.methods {
		e, err := m.entry(ctx, a.program)
		if err != nil {
			return err
		}
		moved := e.Program != "" && e.Program != a.program && !exists(e.Program)
		missing := e.Program == a.program && !m.wanted()
		if e.Stale && e.Enabled && (moved || missing) {
			return a.On(ctx)
		}
	}
	return nil
}

// file is an entry that is a file.
type file struct {
	Part
	kind    string
	path    string
	top     string // of the folders that are removed with the file, if they are empty: it stays
	text    func(p Part, program string) string
	program func(text string) string // reads it back
	used    func() bool              // no better method is
	enabled func(ctx context.Context, text string) bool
}

func (f *file) wanted() bool { return f.used() }

// install replaces the file, and creates folders as needed. It does not write the
// same text again, so that nothing that watches the folder wakes.
func (f *file) install(_ context.Context, program string) error {
	text := f.text(f.Part, program)
	if old, err := os.ReadFile(f.path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("cannot create the folder for start at login: %w", err)
	}
	if err := atomicfile.Write(f.path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("cannot write the start at login entry: %w", err)
	}
	return nil
}

func (f *file) remove(context.Context) error { return removeFile(f.path, f.top) }

// removeFile removes path and then the empty folders above it, up to but without stop.
func removeFile(path, stop string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the start at login entry: %w", err)
	}
	dir := filepath.Dir(path)
	for len(dir) > len(stop) && os.Remove(dir) == nil { // fails for a folder with other files
		dir = filepath.Dir(dir)
	}
	return nil
}

func (f *file) entry(ctx context.Context, program string) (Entry, error) {
	e := Entry{Part: f.Part, Kind: f.kind, Path: f.path}
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, nil
	case err != nil:
		return e, fmt.Errorf("cannot read the start at login entry: %w", err)
	}
	e.Installed = true
	e.Enabled = f.enabled(ctx, string(text))
	e.Stale = e.Enabled && string(text) != f.text(f.Part, program)
	e.Program = f.program(string(text))
	return e, nil
}

// lineValue reads a key of a text with lines of KEY=VALUE; "" if there is none.
func lineValue(text, key string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path) //nolint:gosec // the user's own environment and entries name it
	return err == nil
}
