package home

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// configFolder is the system's folder for configs, or that of many command-line programs where it is used.
func configFolder() (string, error) {
	dir, err := os.UserConfigDir() // which knows the home folder, or fails
	home, _ := os.UserHomeDir()
	return cmp.Or(xdgConfig(os.Getenv("XDG_CONFIG_HOME"), home), dir), err
}

// stateFolder is the system's folder for state.
func stateFolder() (string, error) { return os.UserConfigDir() }

// runtimeFolder is empty: the system has no folder for sockets.
func runtimeFolder() string { return "" }

// systemConfig is the system's folder for the settings of all people.
func systemConfig() string { return "/Library/Application Support" }

// machineID is the permanent id of the system, or "". The host name is no id there: it
// changes with the network, and the agent would not be found any more.
func machineID() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice").Output()
	if err != nil {
		return ""
	}
	return platformUUID(string(out))
}

// bootTime is when this computer was started; zero if that is not known.
func bootTime() time.Time {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return time.Time{}
	}
	return time.Unix(at.Unix())
}
