package sshconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestTheSSHOfWindowsComesBeforeOthersInThePath(t *testing.T) {
	root, git := filepath.Join(t.TempDir(), "Jörgs Windows"), t.TempDir()
	system := filepath.Join(root, "System32", "OpenSSH", "ssh.exe")
	for _, path := range []string{system, filepath.Join(git, "ssh.exe")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SystemRoot", root)
	env := api.Env{"PATH": git}
	if got, err := FindSSH(env); err != nil || got != system {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(system); err != nil {
		t.Fatal(err)
	}
	if got, err := FindSSH(env); err != nil || filepath.Dir(got) != git {
		t.Errorf("without it: %q, %v", got, err)
	}
}

func TestALineWithSpacesAndQuotesReachesCmdAsItIs(t *testing.T) {
	out, err := shell(t.Context(), `echo "C:\Program Files\für Jörg" & echo two`).Output()
	if text := string(out); err != nil || !strings.Contains(text, `"C:\Program Files\f`) || !strings.Contains(text, "two") {
		t.Errorf("%q, %v", text, err)
	}
}
