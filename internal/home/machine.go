package home

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine names this machine, since a home can be shared by several.
func machine() string {
	id := machineID()
	if id == "" {
		id, _ = os.Hostname()
	}
	// machine-id(5) asks not to show the id itself to others.
	return short("tunctl" + id)
}

// machineID is what the system calls itself for good, or "".
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

// registryOfDevices is macOS's entry for the computer itself. The name of the host
// would not do there: it changes with the network, and a laptop that came to another
// one would look for its agent in another folder.
func registryOfDevices() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// platformUUID finds the computer's own id in what ioreg prints.
func platformUUID(registry string) string {
	for line := range strings.Lines(registry) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if name == `"IOPlatformUUID"` {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
