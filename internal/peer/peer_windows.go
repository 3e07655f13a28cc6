package peer

import (
	"bufio"
	"context"
	"encoding/csv"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/nowindow"
)

// HolderOf finds the program that listens on a local TCP port.
func HolderOf(port int) Holder {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	out, err := output(ctx, "netstat", "-ano", "-p", "TCP")
	if err != nil {
		return Holder{}
	}
	pid := netstatListener(string(out), port)
	if pid == 0 {
		return Holder{}
	}
	out, err = output(ctx, "tasklist", "/fo", "csv", "/nh", "/fi", "PID eq "+strconv.Itoa(pid))
	if err != nil {
		return Holder{PID: pid}
	}
	row, err := csv.NewReader(strings.NewReader(string(out))).Read()
	if err != nil || len(row) < 2 {
		return Holder{PID: pid}
	}
	return Holder{Name: row[0], PID: pid}
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	nowindow.Set(cmd)
	return cmd.Output()
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

// Own is always true: usually only one person uses a machine with this system.
func Own(_, _ netip.AddrPort) bool { return true }
