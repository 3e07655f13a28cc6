//go:build linux

// Command watch measures the screen of `tunctl status --watch`: how long after its start a
// user sees the sessions, and what it costs while it is open. The config has ten sessions,
// and an agent runs; no host is reached.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

const (
	rounds    = 21
	sessions  = 10
	open      = 20 * time.Second
	firstGoal = 100 // ms
	costGoal  = 2   // percent of a processor
)

func main() {
	ground.Main("the screen of status --watch is", nil, bench)
}

func bench(ctx context.Context, program string) error {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var config strings.Builder
	for i := range sessions {
		fmt.Fprintf(&config, "[session.s%d]\nhost = \"nowhere\"\nforward = [\"%d:localhost:80\"]\n", i, 20000+i)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config.String()), 0o600); err != nil {
		return err
	}
	tunctl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "TUNCTL_HOME="+dir, "TUNCTL_CONFIG=", "TERM=xterm-256color")
		return cmd
	}
	if out, err := tunctl("agent", "start").CombinedOutput(); err != nil {
		return fmt.Errorf("agent start: %w\n%s", err, out)
	}
	defer func() { _ = tunctl("agent", "stop").Run() }() // a leftover would only idle
	fmt.Fprintln(os.Stderr, "bench: the screen of status --watch")
	first := table.Samples{}
	for range rounds {
		took, _, err := watch(tunctl("status", "--watch"), 0)
		if err != nil {
			return err
		}
		first.Add("tunctl", took.Seconds()*1000)
	}
	_, cost, err := watch(tunctl("status", "--watch"), open)
	if err != nil {
		return err
	}
	median, percent := first.Median("tunctl"), 100*cost.Seconds()/open.Seconds()
	table.Print(os.Stdout, []table.Row{
		{Measure: "first picture of status --watch", Ours: median, Unit: "ms", Goal: fmt.Sprintf("≤ %d ms", firstGoal), Reached: median <= firstGoal},
		{Measure: "… slowest but one in twenty", Ours: first.P95("tunctl"), Unit: "ms", Goal: fmt.Sprintf("≤ %d ms", firstGoal), Reached: first.P95("tunctl") <= firstGoal},
		{Measure: "… CPU while it is open", Ours: percent, Unit: "%", Goal: fmt.Sprintf("≤ %d %%", costGoal), Reached: percent <= costGoal},
	})
	return nil
}

// watch starts the screen and ends it after a time. It returns how long the first whole
// picture took, and the CPU time of the program after that.
func watch(cmd *exec.Cmd, last time.Duration) (first, cost time.Duration, err error) {
	begun := time.Now()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	var shown []byte
	buf := make([]byte, 64<<10)
	for !bytes.Contains(shown, []byte("quit")) { // a key in the last line
		n, err := f.Read(buf)
		if err != nil {
			return 0, 0, fmt.Errorf("the screen showed only %q: %w", shown, err)
		}
		shown = append(shown, buf[:n]...)
	}
	first = time.Since(begun)
	if !bytes.Contains(shown, []byte(fmt.Sprintf("s%d", sessions-1))) {
		return 0, 0, fmt.Errorf("the first picture lacks a session: %q", shown)
	}
	before, err := ground.CPU(cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for { // what is not read would stop the program
			if _, err := f.Read(buf); err != nil {
				return
			}
		}
	}()
	time.Sleep(last)
	after, err := ground.CPU(cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	if _, err := f.WriteString("q"); err != nil {
		return 0, 0, err
	}
	<-ended
	return first, after - before, cmd.Wait()
}
