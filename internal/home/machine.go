package home

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine identifies this machine, since several can share a home.
func machine() string {
	id := machineID()
	if id == "" {
		id, _ = os.Hostname()
	}
	// machine-id(5) asks not to show the id itself to others.
	return short("tunctl" + id)
}

// machineID is the permanent id of the system, or "".
func machineID() string {
	if runtime.GOOS == "darwin" {
		return platformUUID(registryOfDevices())
	}
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// registryOfDevices is the entry of macOS for the computer. The host name is no id
// there: it changes with the network, and the agent would not be found any more.
func registryOfDevices() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// platformUUID finds the computer's id in the output of ioreg.
func platformUUID(registry string) string {
	for line := range strings.Lines(registry) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if name == `"IOPlatformUUID"` {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
