package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/posixsh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a Runner on this computer: a login node with its own home and programs, and
// the given login shell.
type machine struct {
	home, bin string
	shell     []string // the login shell's words before the command

	mu  sync.Mutex
	ran []string // the scripts, for counting
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	root := t.TempDir()
	m := &machine{home: filepath.Join(root, "ho me"), bin: filepath.Join(root, "bin"), shell: []string{"sh", "-c"}}
	for _, d := range []string{m.home, m.bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Only a login shell finds the programs, as on clusters with modules.
	m.file(t, ".profile", m.pathLine())
	return m
}

func (m *machine) pathLine() string { return "PATH=" + posixsh.Quote(m.bin) + ":$PATH\n" }

// program puts an sh script on the machine's PATH.
func (m *machine) program(t *testing.T, name, text string) {
	t.Helper()
	m.file(t, filepath.Join(m.bin, name), "#!/bin/sh\n"+text)
	if err := os.Chmod(filepath.Join(m.bin, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// file writes a file; a relative name is in the home.
func (m *machine) file(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(m.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.home, name)
}

func (m *machine) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (m *machine) command(ctx context.Context, command string) *exec.Cmd {
	words := append(append([]string{}, m.shell...), command)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = m.home
	cmd.Env = []string{"HOME=" + m.home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=student", "LANG=C.UTF-8"}
	return cmd
}

func (m *machine) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	m.mu.Lock()
	m.ran = append(m.ran, string(stdin))
	m.mu.Unlock()
	cmd := m.command(ctx, command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second // for what a killed shell leaves behind
	err := cmd.Run()
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}
