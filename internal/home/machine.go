package home

import (
	"os"
	"strings"
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
