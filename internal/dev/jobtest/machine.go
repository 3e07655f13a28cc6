// Package jobtest has what tests of jobs share: login nodes on this computer, and schedulers of a
// few lines.
package jobtest

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

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// Machine is a Runner on this computer: a login node with its own home and programs, and
// the given login shell.
type Machine struct {
	Home, Bin string
	Shell     []string // the login shell's words before the command

	mu      sync.Mutex
	Scripts []string // the scripts, for counting
}

// NewMachine returns a machine with an empty home.
func NewMachine(t *testing.T) *Machine {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	root := t.TempDir()
	m := &Machine{Home: filepath.Join(root, "ho me"), Bin: filepath.Join(root, "bin"), Shell: []string{"sh", "-c"}}
	for _, d := range []string{m.Home, m.Bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Only a login shell finds the programs, as on clusters with modules.
	m.Write(t, ".profile", m.PathLine())
	return m
}

// PathLine is the line of a start-up file that puts the machine's programs on the PATH.
func (m *Machine) PathLine() string { return "PATH=" + posixsh.Quote(m.Bin) + ":$PATH\n" }

// Program puts an sh script on the machine's PATH.
func (m *Machine) Program(t *testing.T, name, text string) {
	t.Helper()
	m.Write(t, filepath.Join(m.Bin, name), "#!/bin/sh\n"+text)
	if err := os.Chmod(filepath.Join(m.Bin, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Write writes a file; a relative name is in the home.
func (m *Machine) Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(m.File(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// File is the path of a file; a relative name is in the home.
func (m *Machine) File(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.Home, name)
}

// Read reads a file.
func (m *Machine) Read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(m.File(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Command is a command as a login on the machine runs it.
func (m *Machine) Command(ctx context.Context, command string) *exec.Cmd {
	words := append(append([]string{}, m.Shell...), command)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = m.Home
	cmd.Env = []string{"HOME=" + m.Home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=student", "LANG=C.UTF-8"}
	return cmd
}

// Run implements remote.Runner.
func (m *Machine) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	m.mu.Lock()
	m.Scripts = append(m.Scripts, string(stdin))
	m.mu.Unlock()
	cmd := m.Command(ctx, command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second // for what a killed shell leaves behind
	err := cmd.Run()
	res := remote.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}

// LoginShells are the shells that people have, with how sshd starts them.
func LoginShells() map[string][]string {
	shells := map[string][]string{}
	for name, words := range map[string][]string{
		"sh": {"sh", "-c"}, "bash": {"bash", "-c"}, "dash": {"dash", "-c"}, "zsh": {"zsh", "-c"},
		"fish": {"fish", "-c"}, "csh": {"csh", "-c"}, "tcsh": {"tcsh", "-c"}, "ksh": {"ksh", "-c"}, "busybox": {"busybox", "sh", "-c"},
	} {
		if _, err := exec.LookPath(words[0]); err == nil {
			shells[name] = words
		}
	}
	return shells
}
