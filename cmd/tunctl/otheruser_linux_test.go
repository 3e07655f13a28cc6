//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/lab"
)

// stranger is a user who owns nothing.
const stranger = 65534

// TestStrangerGetsNothing has another user of the machine try every way to
// the agent's connection: first with the files and folders as they are, then with all of them
// readable, when only the agent's own check of the peer's user protects it.
func TestStrangerGetsNothing(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can play another user, and CI promises that one is played")
		}
		t.Skip("NOT TRIED: only root can play another user")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "tunctl-door-") // a stranger cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home, tunctl := filepath.Join(dir, "h"), filepath.Join(dir, "tunctl")
	cluster := startPractice(t, lab.Options{})
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), copyProgram(tunctl)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(uid uint32, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, tunctl, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("SSH-2.0-stranger\r\n")
		cmd.Env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG="+cluster.SSHConfig(), "HOME="+dir, "SSH_AUTH_SOCK=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		return out.String(), err
	}
	t.Cleanup(func() {
		if err := endAgent(home); err != nil {
			t.Error(err)
		}
	})
	own := func() {
		t.Helper()
		if out, err := run(0, "ssh", "practice", "echo mine"); err != nil || out != "mine\n" {
			t.Fatalf("the agent's owner got %q, %v", out, err)
		}
	}
	tries := func(doors string) {
		t.Helper()
		for _, args := range [][]string{
			{"connect", "--gateway", "practice"},
			{"connect", "practice", "cn01:22"},
			{"ssh", "practice", "echo yours"},
			{"cp", "practice:jupyter.sh", "stolen"},
			{"status", "--json"},
		} {
			out, err := run(stranger, args...)
			var failed struct{ Error *api.Error }
			if _ = json.Unmarshal([]byte(out), &failed); err == nil || out != "" && (failed.Error == nil || failed.Error.Code != api.CodeAgent) {
				t.Errorf("doors %s: a stranger's `tunctl %s` gave %q, %v", doors, strings.Join(args, " "), out, err)
			}
		}
	}
	own()
	tries("closed")
	err = filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o777)
	})
	if err != nil {
		t.Fatal(err)
	}
	tries("open")
	own()
}

// copyProgram copies the program to where everybody may run it.
func copyProgram(to string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return testprogram.Write(to, data)
}

// TestListenersOfOthers looks for a port on which another user's program listens.
func TestListenersOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TRIED: only root can play another user")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	line := fmt.Sprintf("tunctl-listens %04X", l.Addr().(*net.TCPAddr).Port)
	for uid, listed := range map[uint32]bool{0: true, stranger: false} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-s")
		cmd.Dir, cmd.Stdin = "/", strings.NewReader(listenersScript)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if out, err := cmd.Output(); err != nil || strings.Contains(string(out), line) != listed {
			t.Errorf("user %d, %q listed %v: %v\n%s", uid, line, !listed, err, out)
		}
	}
}
