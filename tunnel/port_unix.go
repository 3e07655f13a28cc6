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
func portHolder(port int) holder {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN", "-Fpc").Output()
	if err != nil {
		return holder{}
	}
	return lsofHolder(string(out))
}

// lsofHolder reads lsof's field output, one field a line: "p4242", "cPython".
func lsofHolder(out string) (h holder) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == 'p' && h.pid == 0:
			h.pid, _ = strconv.Atoi(line[1:])
		case line[0] == 'c' && h.name == "":
			h.name = line[1:]
		}
	}
	return h
}

// ownPeer cannot be told here, where one person uses the machine as a rule.
func ownPeer(net.Conn) bool { return true }
