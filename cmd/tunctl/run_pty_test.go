//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

const longRun = "echo begun; until test -e go; do sleep 0.1; done; echo over"

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	live := func() (n int) {
		for _, j := range s.cluster.Jobs() {
			if !j.Over() {
				n++
			}
		}
		return n
	}
	for answer, want := range map[string]string{"n": "job 1001 stays", "y": "was cancelled"} {
		k := ptytest.Start(t, s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", longRun))
		k.Expect("begun")
		k.Type("\x03")
		k.Reply("End job", answer)
		k.Expect(strings.TrimPrefix(want, "job 1001 "))
		k.WantEnd(exitInterrupted)
	}
	wait.Until(t, "one of both jobs has ended", func() bool { return live() == 1 })

	s.cluster.Controller(false) // so that the submission waits
	k := ptytest.Start(t, s.command("run", "practice", "--with", "hours=1", "--", "true"))
	wait.Until(t, "it is on record", func() bool {
		raw, _ := os.ReadFile(s.home + "/state/state.json")
		return bytes.Contains(raw, []byte("submit-"))
	})
	k.Type("\x03")
	k.Expect("the job may still be submitted on practice")
	k.WantEnd(exitInterrupted)
	s.cluster.Controller(true)
}

func TestRunPBS(t *testing.T) {
	t.Parallel()
	s := newSandboxOf(t, lab.Options{Dialect: lab.PBS, QueueFor: 200 * time.Millisecond})
	cmd := s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", "seq 20000; echo \"$1\" >&2; exit 3", "sh", "ü\n'\"$HOME")
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	var want strings.Builder
	for n := range 20000 {
		fmt.Fprintln(&want, n+1)
	}
	want.WriteString("ü\n'\"$HOME\n")
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 || out.String() != want.String() {
		t.Errorf("exit %d, %d bytes of %d: %s", cmd.ProcessState.ExitCode(), out.Len(), want.Len(), talk.String())
	}
	k := ptytest.Start(t, s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", longRun))
	k.Expect("begun")
	k.Type("\x03")
	k.Expect("End job")
	k.Type("\x03")
	k.Expect("`tunctl cancel practice 1002")
	k.WantEnd(exitInterrupted)
	k = ptytest.Start(t, s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", longRun))
	k.Expect("begun")
	k.Type("\x03")
	k.Reply("End job", "y")
	k.Expect("was cancelled")
	k.WantEnd(exitInterrupted)
	wait.Until(t, "its job has ended", func() bool { return len(s.live()) == 1 })
}

func TestRunAcrossAgents(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd := s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", longRun+"; exit 7")
	var out, talk lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it has begun", func() bool { return strings.Contains(out.String(), "begun") })
	if err := syscall.Kill(s.agentPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.write(s.cluster.Home()+"/go", "")
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 7 || out.String() != "begun\nover\n" {
		t.Errorf("exit %d, %q: %s", cmd.ProcessState.ExitCode(), out.String(), talk.String())
	}
}

func TestRunLeft(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd := s.command("run", "practice", "--with", "hours=1", "--", "sh", "-c", longRun)
	var out, talk lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it has begun", func() bool { return strings.Contains(out.String(), "begun") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(talk.String(), "`tunctl cancel practice 1001` ends it") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), talk.String())
	}
}

func TestRunOutput(t *testing.T) {
	const end = "\x1etunctl: M ended with status "
	for name, tt := range map[string]struct{ log, out, status string }{
		"a status":            {"one\ntwo" + end + "3\nslurm says\n", "one\ntwo", "3"},
		"none":                {"one\n" + end[:9], "one\n" + end[:9], ""},
		"what looks like one": {"\x1e\x1etunctl: N ended" + end + "0\n", "\x1e\x1etunctl: N ended", "0"},
		"no output":           {end + "127\n", "", "127"},
	} {
		for _, size := range []int{1, 5, len(tt.log)} {
			var out bytes.Buffer
			o := &commandOutput{end: []byte(end), to: &out}
			for log := tt.log; log != ""; log = log[min(size, len(log)):] {
				_ = o.write([]byte(log[:min(size, len(log))]))
			}
			if !o.ended {
				_, _ = o.to.Write(o.held)
			}
			if out.String() != tt.out || o.ended != (tt.status != "") || o.status != tt.status {
				t.Errorf("%s, in pieces of %d: %q, %q", name, size, out.String(), o.status)
			}
		}
	}
}

// lockedBuffer is read while a program writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
