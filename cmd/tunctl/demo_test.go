//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

func TestADemoWhoseWindowIsClosedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("this test was told to outlive its window, and so are its programs")
	}
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "demo", "--page", "--no-open")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "DISPLAY=", "BROWSER=", "NO_COLOR=1")
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if lines.Text() == "Ctrl-C ends it." { // it is up
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, said.String())
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
}
