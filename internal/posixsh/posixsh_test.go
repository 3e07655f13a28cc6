//go:build unix

package posixsh

import (
	"os/exec"
	"strings"
	"testing"
)

// runIn runs a command line with that shell, in an empty folder.
func runIn(t *testing.T, shell, line, stdin string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shell, "-c", line)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s, %s: %v: %s", shell, line, err, out)
	}
	return string(out)
}

func TestEveryShellStartsAScriptAlike(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "zsh", "fish", "tcsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for _, line := range []string{Script, LoginScript} {
			if got := runIn(t, shell, line, "x=1\necho \"it's $x\"\n"); got != "it's 1\n" {
				t.Errorf("%s, %s: %q", shell, line, got)
			}
		}
		for _, line := range []string{Line, LoginLine} {
			if got := runIn(t, shell, line, "echo \"it's\"; cat\nthe rest"); got != "it's\nthe rest" {
				t.Errorf("%s, %s: %q", shell, line, got)
			}
		}
	}
}
