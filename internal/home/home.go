// Package home has the paths of tunctl's files: the config, the state, the log and the
// agent's socket. It makes folders private and keeps socket paths short. Of the files
// themselves it reads and writes only the one that names the running agent.
package home

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tunctl/internal/atomicfile"
)

// maxSocketPath is less than the 104 bytes of sun_path on macOS (108 on Linux).
const maxSocketPath = 100

// Paths are the paths of tunctl for one user on one machine.
type Paths struct {
	Config string // the config file
	Chosen bool   // Config is the one that --config or TUNCTL_CONFIG names
	State  string // the folder of state, log and locks
	Socket string // the agent's socket
	Sites  string // the folder of the sites that an administrator installed, for everybody on this machine
	// Moved reports that TUNCTL_HOME is set: none of these are the user's own files.
	Moved bool
}

// StateFile has what the agent remembers.
func (p Paths) StateFile() string { return filepath.Join(p.State, "state.json") }

// Log is the agent's log file.
func (p Paths) Log() string { return filepath.Join(p.State, "agent.log") }

// History has the jobs that ran, one on each line.
func (p Paths) History() string { return filepath.Join(p.State, "history.jsonl") }

// Looked is a file as old as the last look of the user at the status.
func (p Paths) Looked() string { return filepath.Join(p.State, "looked") }

// Relays has the relays inside jobs that may outlive the agent, and the secrets that end them.
func (p Paths) Relays() string { return filepath.Join(p.State, "relays.json") }

// Keys is the folder of the private keys that tunctl has made.
func (p Paths) Keys() string { return filepath.Join(p.State, "keys") }

// Key is the private key for an account there; it need not exist.
func (p Paths) Key(user, host string, port int) string {
	return filepath.Join(p.Keys(), fmt.Sprintf("%s@%s_%d", url.QueryEscape(user), url.QueryEscape(host), port))
}

// Gateway is the folder of the gateway's host key and its known_hosts file.
func (p Paths) Gateway() string { return filepath.Join(p.State, "gateway") }

// Lock is the file that the running agent has locked, from its start to its end.
func (p Paths) Lock() string { return filepath.Join(p.State, "agent.lock") }

// SpareSocket is where an agent listens that cannot listen at Socket: in the state
// folder, which does not depend on the environment.
func (p Paths) SpareSocket() string { return shortSocket(filepath.Join(p.State, "run", "agent.sock")) }

// DashboardLock is the file that the dashboard's process has locked, from its start to its end.
func (p Paths) DashboardLock() string { return filepath.Join(p.State, "dashboard.lock") }

// DashboardSocket is where commands ask the dashboard's process for pages: in the state folder,
// which does not depend on the environment. Its name is no longer than the agent's.
func (p Paths) DashboardSocket() string {
	return filepath.Join(filepath.Dir(p.SpareSocket()), "page.sock")
}

// The ports of dashboards. Forwards that may listen on any port get higher ones, and so do the
// connections of all programs.
const (
	firstDashboardPort = 27000
	dashboardPorts     = 1000
)

// DashboardPort is the port of this home's dashboard, the same at each start.
func (p Paths) DashboardPort() int {
	sum := sha256.Sum256([]byte(p.State))
	return firstDashboardPort + int(binary.BigEndian.Uint32(sum[:]))%dashboardPorts
}

// Dashboard is the address of the page that opens the dashboard; "" before the dashboard was
// opened for the first time. Then its process runs whenever the agent does.
func (p Paths) Dashboard() string {
	if _, err := os.Stat(p.DashboardLock()); err != nil {
		return ""
	}
	return fmt.Sprintf("http://localhost:%d/", p.DashboardPort())
}

// In returns the paths in one folder, as with TUNCTL_HOME.
func In(dir string) Paths {
	return Paths{
		Config: filepath.Join(dir, "config.toml"),
		State:  filepath.Join(dir, "state"),
		Socket: shortSocket(filepath.Join(dir, "run", "agent.sock")),
		Sites:  filepath.Join(dir, "etc", "sites"),
		Moved:  true,
	}
}

// DemoFolder begins the name of the temporary folder of a demo.
const DemoFolder = "tunctl-demo-"

// Find returns the paths of this user: TUNCTL_HOME moves all of them. The defaults follow each system's conventions.
func Find() (Paths, error) {
	if dir := os.Getenv("TUNCTL_HOME"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return Paths{}, fmt.Errorf("TUNCTL_HOME: %w", err)
		}
		parent := filepath.Dir(dir)
		// The user's own environment names it. It would be made again, and stay.
		if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) { //nolint:gosec // see above
			if strings.HasPrefix(filepath.Base(parent), DemoFolder) {
				return Paths{}, errors.New("the demo has ended: `unset TUNCTL_HOME` takes this terminal back to your own config")
			}
			return Paths{}, fmt.Errorf("TUNCTL_HOME: there is no folder %s: create it, or `unset TUNCTL_HOME`", parent)
		}
		return In(dir), nil
	}
	config, err := configFolder()
	if err != nil {
		return Paths{}, fmt.Errorf("cannot find the config directory: %w", err)
	}
	state, err := stateFolder()
	if err != nil {
		return Paths{}, fmt.Errorf("cannot find the state directory: %w", err)
	}
	p := Paths{
		Config: filepath.Join(config, "tunctl", "config.toml"),
		State:  filepath.Join(state, "tunctl", machine()),
		Sites:  filepath.Join(systemConfig(), "tunctl", "sites"),
	}
	p.Socket = p.SpareSocket()
	if run := runtimeFolder(); run != "" {
		p.Socket = shortSocket(filepath.Join(run, "tunctl", "agent.sock"))
	}
	return p, nil
}

// xdgConfig is the folder for configs that many command-line programs use on macOS, too: the one that env
// names, or ~/.config if that has one of ours; else "".
func xdgConfig(env, home string) string {
	if filepath.IsAbs(env) {
		return env
	}
	ours := filepath.Join(home, ".config", "tunctl")
	if _, err := os.Stat(ours); err != nil {
		return ""
	}
	return filepath.Dir(ours)
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}

// shortSocket is the path itself if it is short enough for a socket, else one in a
// temporary folder.
func shortSocket(path string) string {
	if len(path) <= maxSocketPath {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("tunctl-%d-%s", os.Getuid(), short(path)), "agent.sock")
}

// ErrShared is wrapped when a folder that must be private belongs to another user.
var ErrShared = errors.New("the folder belongs to another user")

// MakePrivate creates a folder that only its owner can enter, or makes an existing one
// so: others could replace a socket in a folder that they can write to.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := owned(dir)
	if err != nil {
		return err
	}
	return closeToOthers(dir, info)
}

// CheckOwned returns an error for another user's folder: what listens there is not ours.
func CheckOwned(dir string) error {
	_, err := owned(dir)
	return err
}

func owned(dir string) (os.FileInfo, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !ownedByUs(info) {
		return nil, fmt.Errorf("%q: %w", dir, ErrShared)
	}
	return info, nil
}

// FullDiskHint is the hint for a write that failed because the disk is full or the quota
// exceeded; "" for other errors.
func FullDiskHint(err error) string {
	if slices.ContainsFunc(fullDisk, func(full error) bool { return errors.Is(err, full) }) {
		return "free disk space, then try again"
	}
	return ""
}

// machine identifies this machine, since several can share a home.
func machine() string {
	id := machineID()
	if id == "" {
		id, _ = os.Hostname()
	}
	// machine-id(5) asks not to show the id itself to others.
	return short("tunctl" + id)
}

// platformUUID finds the computer's id in the output of ioreg, of macOS.
func platformUUID(registry string) string {
	for line := range strings.Lines(registry) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if name == `"IOPlatformUUID"` {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// Running is the agent that holds the lock. Its socket may differ from that in Paths,
// since XDG_RUNTIME_DIR differs between a terminal, cron and su.
type Running struct {
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
	Socket string    `json:"socket"`
}

// String describes the agent.
func (r Running) String() string {
	if r.PID == 0 {
		return "another agent"
	}
	return fmt.Sprintf("the agent with pid %d, running since %s", r.PID, r.Since.Local().Format("Mon 2 Jan 15:04"))
}

// BeforeBoot reports whether the agent ran before this computer was last started: it ended
// with the computer.
func (r Running) BeforeBoot() bool { return r.Since.Before(bootTime()) }

// runningFile is not the lock file: on Windows nobody can read a locked file.
func (p Paths) runningFile() string { return filepath.Join(p.State, "agent.json") }

// Running reads which agent was last announced. That may be one that was killed: only
// the lock, or an answer, shows whether it runs.
func (p Paths) Running() (Running, error) {
	var r Running
	text, err := os.ReadFile(p.runningFile())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Running{}, fmt.Errorf("cannot read which agent is running: %w", err)
	}
	return r, nil
}

// SetRunning records which agent runs. Only the holder of the lock may.
func (p Paths) SetRunning(r Running) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(p.runningFile(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write which agent is running: %w", err)
	}
	return nil
}

// ClearRunning removes what SetRunning wrote.
func (p Paths) ClearRunning() error {
	if err := atomicfile.Remove(p.runningFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
