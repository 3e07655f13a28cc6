//go:build unix && !linux

package peer

import (
	"context"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// HolderOf finds the program that listens on a local TCP port.
func HolderOf(port int) Holder {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN", "-Fpc").Output()
	if err != nil {
		return Holder{}
	}
	return lsofHolder(string(out))
}

// lsofHolder reads lsof's field output, one field a line: "p4242", "cPython".
func lsofHolder(out string) (h Holder) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == 'p' && h.PID == 0:
			h.PID, _ = strconv.Atoi(line[1:])
		case line[0] == 'c' && h.Name == "":
			h.Name = line[1:]
		}
	}
	return h
}

// Own is always true: usually only one person uses a machine with this system.
func Own(_, _ netip.AddrPort) bool { return true }
