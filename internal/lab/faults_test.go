//go:build unix

package lab

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/dev/wait"

	"golang.org/x/crypto/ssh"
)

func TestOnlyTheRunsOwnKeyIsLetIn(t *testing.T) {
	c := practice(t, Options{})
	for _, try := range []struct{ user, key string }{{user, "host_ed25519"}, {"root", "id_ed25519"}} {
		if client, err := login(t, c, try.user, try.key); err == nil {
			_ = client.Close()
			t.Errorf("%s got in with %s", try.user, try.key)
		}
	}
	dial(t, c)
	if n := c.Logins(); n != 3 {
		t.Errorf("%d logins were counted, want 3", n)
	}
}

func keepalive(t *testing.T, client *ssh.Client) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		done <- err
	}()
	return wait.For(t, "a keepalive is answered", done)
}

func TestDropAllCutsConnectionsAndANewOneIsAccepted(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	c.DropAll()
	_ = client.Wait() // returns only because the connection ended
	dial(t, c)
}

func TestASlowClusterDelaysBothDirections(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	const delay = 40 * time.Millisecond
	c.Slow(delay)
	began := time.Now()
	if err := keepalive(t, client); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*delay {
		t.Errorf("a round trip took %s, want at least %s", took, 2*delay)
	}
}

func TestACommandOutlivesItsConnection(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	started, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("mkfifo go; echo started; read -r word <go; sbatch --parsable --wrap true >done"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(started, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	c.DropAll()
	_ = client.Wait()
	if err := os.WriteFile(filepath.Join(c.Home(), "go"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the command's job", func() bool { return len(c.Jobs()) == 1 })
}

func fileContains(path, text string) bool {
	data, _ := os.ReadFile(path)
	return strings.Contains(string(data), text)
}

// alive reports whether the process whose id is in a file runs; a dead one that
// nobody has waited for yet does not.
func alive(t *testing.T, pidFile string) bool {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(readFile(t, pidFile)))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

func TestCloseEndsJobsAndWhatTheyLeftBehind(t *testing.T) {
	t.Parallel()
	c := practice(t, Options{})
	client := dial(t, c)
	run(t, client, "sbatch", "#!/bin/sh\ntrap '' TERM\necho $$ >stubborn\nwhile :; do sleep 1; done\n")
	run(t, client, "nohup sleep 600 >/dev/null 2>&1 & echo $! >background", "")
	pids := []string{filepath.Join(c.Home(), "stubborn"), filepath.Join(c.Home(), "background")}
	wait.Until(t, "the job", func() bool { return fileContains(pids[0], "\n") })
	if !alive(t, pids[1]) {
		t.Fatal("a command's background process did not outlive it")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range pids {
		wait.Until(t, "the end of "+filepath.Base(file), func() bool { return !alive(t, file) })
	}
}

func TestNamesOutsideTheClusterDoNotResolve(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, host := range []string{"cn01", "cn02", "cn01.practice", "localhost", "127.0.0.1", loginNode} {
		conn, err := client.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
	for _, host := range []string{"cn03", "example.com", "192.0.2.1", "cn01.example.com"} {
		if _, err := client.Dial("tcp", net.JoinHostPort(host, port)); err == nil || !strings.Contains(err.Error(), "Name or service not known") {
			t.Errorf("%s: %v", host, err)
		}
	}
	_ = listener.Close()
	if _, err := client.Dial("tcp", net.JoinHostPort("cn01", port)); err == nil || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("a closed port: %v", err)
	}
}
