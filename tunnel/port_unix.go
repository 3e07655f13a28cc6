//go:build unix && !linux

package tunnel

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// portHolder finds out which program listens on a local TCP port.
func portHolder(port int) Holder {
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

// ownPeer cannot be told here, where one person uses the machine as a rule.
func ownPeer(net.Conn) bool { return true }
