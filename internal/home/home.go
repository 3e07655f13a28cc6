// Package home has the paths of tunctl's files: the config, the state, the log and the
// agent's socket. It makes folders private and keeps socket paths short. Of the files
// themselves it reads and writes only the one that names the running agent.
package home

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Relays has the relays inside jobs that may outlive the agent, and the secrets that end them.
func (p Paths) Relays() string { return filepath.Join(p.State, "relays.json") }

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

// Find returns the paths that the environment asks for: TUNCTL_HOME moves all of them,
// TUNCTL_CONFIG only the config file. The defaults follow each system's conventions.
func Find() (Paths, error) {
	p, err := find()
	if c := os.Getenv("TUNCTL_CONFIG"); c != "" && err == nil {
		p.Config, p.Chosen = c, true
	}
	return p, err
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

func find() (Paths, error) {
	if dir := os.Getenv("TUNCTL_HOME"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return Paths{}, fmt.Errorf("TUNCTL_HOME: %w", err)
		}
		parent := filepath.Dir(dir)
		// The user's own environment names it. It would be made again, and stay.
		if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) { //nolint:gosec // see above
			return Paths{}, fmt.Errorf("TUNCTL_HOME: there is no folder %s: create it; if it was that of a demo, the demo has ended", parent)
		}
		return In(dir), nil
	}
	config, err := os.UserConfigDir()
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
