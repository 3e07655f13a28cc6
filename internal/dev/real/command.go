package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/dev/wait"
)

// cleanEnv is the environment of everything that runs inside a node.
var cleanEnv = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root", "LANG=C.UTF-8", "TERM=xterm",
}

// run runs a command, feeds it input, and returns what it printed. Its complaints
// become the error.
func run(input string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*wait.Limit) // a script may run thirty programs
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, find(argv[0]), argv[1:]...)
	cmd.Env = cleanEnv
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	// A daemon may keep the pipes open; the end of its parent is what counts.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// find is the path of a program, if it is installed. Daemons are where the user's
// PATH may not look.
func find(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", program)
}

// inside is the command that runs argv as root in a node with the given pid 1.
func inside(pid int, argv ...string) []string {
	enter := []string{"nsenter", "-t", strconv.Itoa(pid), "-m", "-u", "-i", "-n", "-p", "--", "env", "-C", "/"}
	return append(enter, argv...)
}

// inNetwork is the command that runs argv in the network namespace of a process.
func inNetwork(pid int, argv ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(pid), "-n", "--"}, argv...)
}
