package tunnel

import (
	"bufio"
	"context"
	"encoding/csv"
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
	out, err := exec.CommandContext(ctx, "netstat", "-ano", "-p", "TCP").Output()
	if err != nil {
		return holder{}
	}
	pid := netstatListener(string(out), port)
	if pid == 0 {
		return holder{}
	}
	out, err = exec.CommandContext(ctx, "tasklist", "/fo", "csv", "/nh", "/fi", "PID eq "+strconv.Itoa(pid)).Output()
	if err != nil {
		return holder{pid: pid}
	}
	row, err := csv.NewReader(strings.NewReader(string(out))).Read()
	if err != nil || len(row) < 2 {
		return holder{pid: pid}
	}
	return holder{name: row[0], pid: pid}
}

// netstatListener reads "TCP 127.0.0.1:8888 0.0.0.0:0 LISTENING 4242". The word
// for the state is translated; the foreign port 0 is not.
func netstatListener(out string, port int) int {
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 || f[0] != "TCP" || !strings.HasSuffix(f[2], ":0") {
			continue
		}
		if _, p, err := net.SplitHostPort(f[1]); err != nil || p != strconv.Itoa(port) {
			continue
		}
		if pid, err := strconv.Atoi(f[len(f)-1]); err == nil {
			return pid
		}
	}
	return 0
}

// ownPeer cannot be told here, where one person uses the machine as a rule.
func ownPeer(net.Conn) bool { return true }
