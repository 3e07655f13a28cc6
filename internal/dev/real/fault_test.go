package real

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds the waits for what must come; none is meant to take it.
const patience = 2 * time.Minute

// echo is a live connection to a host: OpenSSH's client, with cat at the far end.
type echo struct {
	in    io.Writer
	lines chan string
}

func connect(t *testing.T, lab *Lab, host string) *echo {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ssh", "-F", lab.SSHConfig(), host, "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &echo{in, make(chan string)}
	go func() {
		defer close(e.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			e.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range e.lines {
		}
		_ = cmd.Wait()
	})
	if err := e.say("hello", patience); err != nil {
		t.Fatalf("connect to %s: %v", host, err)
	}
	return e
}

var (
	errSilent = errors.New("no echo")
	errEnded  = errors.New("the connection ended")
)

// say waits for the echo of a word.
func (e *echo) say(word string, limit time.Duration) error {
	if _, err := io.WriteString(e.in, word+"\n"); err != nil {
		return errEnded
	}
	return e.hear(word, limit)
}

func (e *echo) hear(word string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-e.lines:
			if !ok {
				return errEnded
			}
			if line == word {
				return nil
			}
		case <-timer.C:
			return errSilent
		}
	}
}

func TestConnectionSurvivesWhatOnlyStallsIt(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	for _, x := range []struct {
		name         string
		fail, repair func()
	}{
		{"silent cut", func() { lab.Cut("silent") }, func() { lab.Restore("silent") }},
		{"wifi", func() { lab.Cut("wifi") }, func() { lab.Restore("wifi") }},
		{"vpn", func() { lab.Cut("vpn") }, func() { lab.Restore("vpn") }},
		{"cable of login1", func() { lab.Cut("login1") }, func() { lab.Restore("login1") }},
		{"frozen connection", func() { lab.FreezeConns("lab-login") }, func() { lab.ContConns("lab-login") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := connect(t, lab, "lab-login")
			x.fail()
			if err := e.say("during", time.Second); !errors.Is(err, errSilent) {
				t.Errorf("during: %v", err)
			}
			x.repair()
			if err := e.hear("during", patience); err != nil {
				t.Errorf("what was said during comes back: %v", err)
			}
		})
	}
}

func TestConnectionEndsWithWhatKillsIt(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	for name, fail := range map[string]func(){
		"killed":      func() { lab.KillConns("lab-login") },
		"reset":       func() { lab.Cut("reset") },
		"new address": func() { lab.Roam() },
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, lab, "lab-login")
			fail()
			want, limit := errEnded, patience
			if name == "new address" {
				want, limit = errSilent, 3*time.Second
			}
			if err := e.say("after", limit); !errors.Is(err, want) {
				t.Errorf("after: %v; want %v", err, want)
			}
			if name == "reset" {
				lab.Restore("reset")
			}
			connect(t, lab, "lab-login")
		})
	}
}

func TestCutsAreSeenAsTheyAreNamed(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	addr := net.JoinHostPort(lab.NodeAddr("login1"), "22")
	dial := func(limit time.Duration) error {
		conn, err := net.DialTimeout("tcp", addr, limit)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	for _, x := range []struct {
		where string
		limit time.Duration // for a dial to say so
		seen  func(error) bool
	}{
		{"wifi", patience, func(err error) bool { return errors.Is(err, syscall.EHOSTUNREACH) }},
		{"silent", time.Second, func(err error) bool { e, ok := errors.AsType[net.Error](err); return ok && e.Timeout() }},
		{"reset", patience, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
	} {
		t.Run(x.where, func(t *testing.T) {
			lab.Cut(x.where)
			if err := dial(x.limit); !x.seen(err) {
				t.Errorf("a dial says %v", err)
			}
			lab.Restore(x.where)
			if !poll(patience, func() bool { return dial(time.Second) == nil }) {
				t.Errorf("after the cut a dial says %v", dial(time.Second))
			}
		})
	}
}

func TestDelayMakesRoundTripsLongAndKeepsConnections(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	e := connect(t, lab, "lab-login")
	const rtt = 500 * time.Millisecond
	lab.Delay(rtt, 0)
	began := time.Now()
	if err := e.say("slow", patience); err != nil {
		t.Fatalf("the connection with a delay: %v", err)
	}
	if took := time.Since(began); took < rtt {
		t.Errorf("an echo took %v with a delay of %v", took, rtt)
	}
	lab.Delay(0, 100)
	if err := e.say("lost", time.Second); !errors.Is(err, errSilent) {
		t.Errorf("with all packets lost: %v", err)
	}
	lab.Delay(0, 0)
	if err := e.hear("lost", patience); err != nil {
		t.Errorf("the connection without a delay: %v", err)
	}
	// A busy machine may be slow, but with the delay no echo would be quick.
	quick := func() bool {
		began := time.Now()
		return e.say("quick", patience) == nil && time.Since(began) < rtt
	}
	if !poll(patience, quick) {
		t.Errorf("every echo takes longer than %v afterwards", rtt)
	}
}

func TestFrozenListenerTakesConnectionsAndSaysNothing(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	lab.FreezeListener("lab-login")
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(lab.NodeAddr("login1"), "22"), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it said %d bytes, %v", n, err)
	}
	lab.ContListener("lab-login")
	connect(t, lab, "lab-login")
}

func TestStoppedSSHDRefusesAndItsConnectionsStay(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	e := connect(t, lab, "lab-login")
	lab.StopSSHD("lab-login")
	if _, err := net.DialTimeout("tcp", net.JoinHostPort(lab.NodeAddr("login1"), "22"), patience); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial says %v", err)
	}
	lab.StartSSHD("lab-login")
	lab.RestartSSHD("lab-login")
	if err := e.say("still here", patience); err != nil {
		t.Error(err)
	}
	connect(t, lab, "lab-login")
}

func TestRotatedHostKeyIsNoticed(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	lab.RotateHostKey("lab-login")
	if _, err := (client{lab: lab}).ssh(t, "lab-login", "true"); err == nil || !strings.Contains(err.Error(), "HOST IDENTIFICATION HAS CHANGED") {
		t.Errorf("with another host key: %v", err)
	}
	lab.RestoreHostKey("lab-login")
	connect(t, lab, "lab-login")
}

func TestJobsRunOnWithoutTheController(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\nsleep 600\n")
	lab.WaitJob(id, "RUNNING")
	lab.StopController()
	if out, err := lab.As("hpcuser", "scontrol", "ping"); err == nil || !strings.Contains(out, "DOWN") {
		t.Errorf("scontrol without a controller says %q, %v", out, err)
	}
	lab.StartController()
	lab.WaitJob(id, "RUNNING")
}

func TestCrashedNodeLosesItsJobsAndBootsAgain(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\n#SBATCH --output=doomed.log\necho started\nsleep 600\n", "--nodelist=cn02", "--no-requeue")
	// A job counts as running before it starts, and would be queued again until then.
	started := func() bool {
		text, err := os.ReadFile(filepath.Join(lab.Dir(), "home/hpcuser/doomed.log"))
		return err == nil && len(text) > 0
	}
	if !poll(patience, started) {
		t.Fatal("the job does not start")
	}
	lab.CrashNode("cn02")
	lab.WaitJob(id, "NODE_FAIL")
	lab.BootNode("cn02")
	again := lab.Submit("#!/bin/sh\nsleep 600\n", "--nodelist=cn02")
	lab.WaitJob(again, "RUNNING")
}

func TestCrashedLoginNodeSaysNothingAndBootsAgain(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	e := connect(t, lab, "lab-login")
	lab.CrashNode("login1")
	if err := e.say("anyone", time.Second); !errors.Is(err, errSilent) {
		t.Errorf("a connection to a crashed node: %v", err)
	}
	lab.BootNode("login1")
	// The new kernel does not know the connection.
	if err := e.hear("anyone", patience); !errors.Is(err, errEnded) {
		t.Errorf("a connection to a node that has booted again: %v", err)
	}
	connect(t, lab, "lab-login")
}
