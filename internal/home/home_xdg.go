//go:build unix && !darwin

package home

import (
	"os"
	"path/filepath"
	"strings"
)

// configFolder is the system's folder for configs.
func configFolder() (string, error) { return os.UserConfigDir() }

// stateFolder is the system's folder for state.
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "state"), err
}

// runtimeFolder is the system's folder for sockets, "" if there is none.
func runtimeFolder() string { return os.Getenv("XDG_RUNTIME_DIR") }

// systemConfig is the system's folder for the settings of all people.
func systemConfig() string { return "/etc" }

// machineID is the permanent id of the system, or "".
func machineID() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
