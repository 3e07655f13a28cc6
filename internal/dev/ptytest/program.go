//go:build unix

package ptytest

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/dev/wait"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// timeout bounds every wait; none is meant to take it.
const timeout = wait.Limit

// Program is a program in a pseudo-terminal, with its output so far.
type Program struct {
	t     testing.TB
	pty   *os.File
	cmd   *exec.Cmd
	ended chan struct{}
	more  chan struct{}

	columns, rows int

	mu     sync.Mutex
	output []byte
	seen   int // of output, by Expect
}

// Start starts a program, which ends with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	return StartSized(t, cmd, 160, 40)
}

// StartSized is Start in a terminal of so many columns and rows.
func StartSized(t testing.TB, cmd *exec.Cmd, columns, rows int) *Program {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{t: t, pty: f, cmd: cmd, ended: make(chan struct{}), more: make(chan struct{}, 1), columns: columns, rows: rows}
	go p.read()
	t.Cleanup(func() {
		// A shell's program in the foreground would keep the terminal open.
		if group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err == nil && group > 1 {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
		_ = cmd.Process.Kill()
		<-p.ended
		_ = f.Close()
	})
	return p
}

func (p *Program) read() {
	defer close(p.ended)
	buf := make([]byte, 4096)
	for {
		n, err := p.pty.Read(buf)
		p.mu.Lock()
		p.output = append(p.output, buf[:n]...)
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Expect waits until the program prints text, after that of the last Expect.
func (p *Program) Expect(words string) {
	p.t.Helper()
	late := time.NewTimer(timeout)
	defer late.Stop()
	for ended := false; ; {
		rest, found := p.find(words)
		switch {
		case found:
			return
		case ended:
			p.t.Fatalf("it never printed %q, but:\n%s", words, rest)
		}
		select {
		case <-p.more:
		case <-p.ended:
			ended = true
		case <-late.C:
			p.t.Fatalf("it has not printed %q, but:\n%s", words, rest)
		}
	}
}

// Between waits until the program prints two texts, one after the other, and returns what
// is between them.
func (p *Program) Between(begin, end string) string {
	p.t.Helper()
	p.Expect(begin)
	p.mu.Lock()
	from := p.seen
	p.mu.Unlock()
	p.Expect(end)
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.output[from : p.seen-len(end)])
}

// find finds words in the output that Expect has not seen yet.
func (p *Program) find(words string) (rest string, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest = string(p.output[p.seen:])
	at := strings.Index(rest, words)
	if at >= 0 {
		p.seen += at + len(words)
	}
	return rest, at >= 0
}

// Type presses keys: "\x03" is Ctrl-C.
func (p *Program) Type(keys string) {
	p.t.Helper()
	if _, err := p.pty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Signal sends the program a signal.
func (p *Program) Signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// Answer types a line.
func (p *Program) Answer(line string) {
	p.t.Helper()
	p.Type(line + "\n")
}

// Reply answers a question.
func (p *Program) Reply(question, line string) {
	p.t.Helper()
	p.Expect(question)
	p.Answer(line)
}

// End waits for the program, and returns its exit code and its output.
func (p *Program) End() (code int, output string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(timeout):
		p.t.Fatal("it does not end")
	}
	_ = p.cmd.Wait() // the exit code is enough
	return p.cmd.ProcessState.ExitCode(), string(p.output)
}

// WantEnd waits for the program, and fails the test unless it ends with an exit code.
func (p *Program) WantEnd(want int) {
	p.t.Helper()
	if code, output := p.End(); code != want {
		p.t.Errorf("exit code %d, want %d:\n%s", code, want, output)
	}
}
