//go:build linux

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/client"
	"tunctl/internal/home"
)

// pbsLaptop is a laptop that reaches the host of TUNCTL_PBS_HOST by a link that can be cut.
func pbsLaptop(t *testing.T) (*laptop, *link) {
	t.Helper()
	host := os.Getenv(pbsHost)
	if host == "" {
		t.Skip("TUNCTL_PBS_HOST names no host with PBS")
	}
	out, err := exec.CommandContext(t.Context(), "ssh", "-G", host).Output()
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		set[name] = cmp.Or(set[name], value)
	}
	n := newLink(t, net.JoinHostPort(set["hostname"], set["port"]))
	_, port, err := net.SplitHostPort(n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	known := set["hostname"]
	if set["port"] != "22" {
		known = "[" + known + "]:" + set["port"]
	}
	file := filepath.Join(t.TempDir(), "ssh_config")
	text := fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %s\n  HostKeyAlias %s\nInclude %s\n", host, port, cmp.Or(set["hostkeyalias"], known), filepath.Join(own, ".ssh", "config"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &laptop{t: t, home: filepath.Join(t.TempDir(), "h")}
	l.env = append(os.Environ(), "TUNCTL_HOME="+l.home, "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+file, "DISPLAY=", "BROWSER=", "NO_COLOR=1")
	l.client = client.New(home.In(l.home))
	t.Cleanup(l.close)
	t.Cleanup(func() { // whatever goes wrong, no job of ours stays
		n.restore()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = l.commandIn(ctx, "down", "--all", "--cancel").Run()
	})
	return l, n
}

// link passes connections on to an address, until it is cut.
type link struct {
	net.Listener
	to string

	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &link{Listener: l, to: to}
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	t.Cleanup(n.cut)
	t.Cleanup(func() { _ = l.Close() })
	work.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { n.pass(near) })
		}
	})
	return n
}

func (n *link) pass(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.DialTimeout("tcp", n.to, patience)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	n.mu.Lock()
	off := n.off
	n.conns = append(n.conns, near, far)
	n.mu.Unlock()
	if off {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}

// cut ends what is open, and lets nothing through.
func (n *link) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = true
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

func (n *link) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = false
}

// pbsScript is a job that serves no page. TUNCTL_PBS_DIRECTIVES are the lines that its site wants: "-q small;-A project".
func pbsScript(more string) string {
	text := "#!/bin/sh\n#PBS -l walltime=1:00:00\n" + more
	for d := range strings.SplitSeq(os.Getenv("TUNCTL_PBS_DIRECTIVES"), ";") {
		if d != "" {
			text += "#PBS " + d + "\n"
		}
	}
	return text + "sleep 3600\n"
}

// shellUp starts a session without a page for a script.
func (l *laptop) shellUp(script string) {
	l.t.Helper()
	config := fmt.Sprintf("[session.inside]\nhost = %q\napp = \"shell\"\nsubmit = \"local:job.sh\"\n", os.Getenv(pbsHost))
	for _, err := range []error{
		os.MkdirAll(l.home, 0o700),
		os.WriteFile(filepath.Join(l.home, "job.sh"), []byte(script), 0o600), os.WriteFile(filepath.Join(l.home, "config.toml"), []byte(config), 0o600),
	} {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.run("up", "inside", "--wait", "2h")
}

func TestShellInsideARealPBSJob(t *testing.T) {
	l, n := pbsLaptop(t)
	l.shellUp(pbsScript(""))
	t.Run("leaves a program in the background", func(*testing.T) {
		out, _ := l.run("ssh", "inside", "nohup sleep 1800 >/dev/null 2>&1 & echo $!")
		n.cut()
		n.restore()
		l.run("ssh", "inside", "kill "+strings.TrimSpace(out)) // which fails if there is none
	})
	t.Run("outlives a cut of eleven minutes", func(t *testing.T) {
		const lines = 14 * 60
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
		defer cancel()
		cmd := l.commandIn(ctx, "ssh", "inside", fmt.Sprintf("i=0; while test $i -lt %d; do echo $i; i=$((i + 1)); sleep 1; done", lines))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var back *time.Timer
		text := bufio.NewScanner(out)
		next := 0
		for ; text.Scan(); next++ {
			if text.Text() != strconv.Itoa(next) {
				t.Fatalf("line %d is %q", next, text.Text())
			}
			if next == 30 {
				n.cut()
				back = time.AfterFunc(11*time.Minute, n.restore)
			}
		}
		if back != nil {
			back.Stop()
		}
		if err := cmd.Wait(); err != nil || next != lines {
			t.Errorf("%d of %d lines, %v", next, lines, err)
		}
	})
}

func TestArrayOfARealPBS(t *testing.T) {
	l, _ := pbsLaptop(t)
	l.shellUp(pbsScript("#PBS -J 3-4\n"))
	out, _ := l.run("ssh", "inside", "echo $PBS_ARRAY_INDEX $PBS_JOBID; test -s \"$PBS_NODEFILE\" && echo nodes")
	if !strings.HasPrefix(out, "3 ") && !strings.HasPrefix(out, "4 ") || !strings.Contains(out, "nodes") {
		t.Errorf("the environment of a task is %q", out)
	}
}

// TestASitesNotebookOnARealPBS runs where TUNCTL_PBS_HOST names a host for ssh, with a
// key that needs no user. TUNCTL_PBS_SITE is its site, TUNCTL_PBS_WITH are answers to
// the site's questions: project=personal gpus=0.
func TestASitesNotebookOnARealPBS(t *testing.T) {
	l, n := pbsLaptop(t)
	words := []string{"init", cmp.Or(os.Getenv("TUNCTL_PBS_SITE"), "pbs"), "--host", os.Getenv(pbsHost), "--session", "jupyter"}
	for _, answer := range strings.Fields(os.Getenv("TUNCTL_PBS_WITH")) {
		words = append(words, "--with", answer)
	}
	l.run(words...)
	_, talk := l.run("up", "--no-open", "--wait", "2h")
	t.Logf("what a person sees:\n%s", talk)
	base, token := l.page()
	if path := strings.TrimSuffix(l.status().Endpoint.Path, "/lab"); path != "/" {
		base = base.JoinPath(path)
	}
	answersWithToken(t, base, token)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cells, wait := runCountingCell(ctx, t, base, token, time.Minute, 0, 2) // of each, cellLines
	<-cells[0].printed
	n.cut()
	restored := time.Now()
	n.restore()
	wait()
	for i, c := range cells {
		if r := c.result(restored); !r.exact() {
			t.Errorf("tab %d: missing | twice | late | WebSockets | next: %s", i, r)
		}
	}
	_, talk = l.run("down", "--cancel")
	if !strings.Contains(talk, "was cancelled") {
		t.Errorf("down --cancel: %s", talk)
	}
}
