// Package home knows where tunctl keeps its files: the config, the state, the
// log and the agent's socket. It makes folders private and short socket paths
// possible. Of the files themselves it reads and writes only the one that says which
// agent runs.
package home

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// maxSocketPath keeps below sun_path's 104 bytes on macOS (108 on Linux).
const maxSocketPath = 100

// Paths are the places of one installation of tunctl for one person on one machine.
type Paths struct {
	Config string // the config file
	State  string // the folder of state, log and locks
	Socket string // the agent's socket
	// Moved reports that TUNCTL_HOME moved everything away from the person's own files.
	Moved bool
}

// StateFile is what the agent remembers.
func (p Paths) StateFile() string { return filepath.Join(p.State, "state.json") }

// Log is the agent's log file.
func (p Paths) Log() string { return filepath.Join(p.State, "agent.log") }

// History is what ran, one job a line.
func (p Paths) History() string { return filepath.Join(p.State, "history.jsonl") }

// Gateway is the folder of the gateway's own host key and what ssh needs to know of it.
func (p Paths) Gateway() string { return filepath.Join(p.State, "gateway") }

// Lock is the file that the running agent holds a lock on, from its start to its end.
func (p Paths) Lock() string { return filepath.Join(p.State, "agent.lock") }

// Find returns the places according to the environment: TUNCTL_HOME moves them
// all, TUNCTL_CONFIG the config file alone, else each system's own conventions.
func Find() (Paths, error) {
	p, err := find()
	if err != nil {
		return Paths{}, err
	}
	if c := os.Getenv("TUNCTL_CONFIG"); c != "" {
		p.Config = c
	}
	return p, nil
}

// In returns the places below one folder, as TUNCTL_HOME has them.
func In(dir string) Paths {
	return Paths{
		Config: filepath.Join(dir, "config.toml"),
		State:  filepath.Join(dir, "state"),
		Socket: shortSocket(filepath.Join(dir, "run", "agent.sock")),
		Moved:  true,
	}
}

func find() (Paths, error) {
	if dir := os.Getenv("TUNCTL_HOME"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return Paths{}, fmt.Errorf("TUNCTL_HOME: %w", err)
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
	}
	p.Socket = p.SpareSocket()
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" && runtime.GOOS == "linux" {
		p.Socket = shortSocket(filepath.Join(run, "tunctl", "agent.sock"))
	}
	return p, nil
}

// stateFolder is where the system wants state to be kept.
func stateFolder() (string, error) {
	switch runtime.GOOS {
	case "windows":
		return os.UserCacheDir() // %LocalAppData%: stays on this machine
	case "darwin":
		return os.UserConfigDir()
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "state"), err
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}

// shortSocket is the path itself where a socket can have it, else one in a short
// folder of its own.
func shortSocket(path string) string {
	if len(path) <= maxSocketPath {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("tunctl-%d-%s", os.Getuid(), short(path)), "agent.sock")
}

// ErrShared is wrapped when a folder that must be private belongs to another user.
var ErrShared = errors.New("the folder belongs to another user")

// MakePrivate makes a folder that only its owner can enter, or checks that an
// existing one is so: a socket in a folder that others can write to can be replaced.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := owned(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700) //nolint:gosec // a folder needs its x bit
	}
	return nil
}

// CheckOwned refuses a folder that is another user's: what listens there is not ours.
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
