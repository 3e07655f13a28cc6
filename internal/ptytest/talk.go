//go:build unix

package ptytest

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// patience bounds every wait; none is meant to take it.
const patience = time.Minute

// Talk is a program in a pseudo-terminal, and what it has said.
type Talk struct {
	t    testing.TB
	pty  *os.File
	cmd  *exec.Cmd
	gone chan struct{}
	more chan struct{}

	mu   sync.Mutex
	said []byte
	read int // up to where Expect has looked
}

// Start starts a program. It is ended with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Talk {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 160})
	if err != nil {
		t.Fatal(err)
	}
	k := &Talk{t: t, pty: f, cmd: cmd, gone: make(chan struct{}), more: make(chan struct{}, 1)}
	go k.listen()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-k.gone
		_ = f.Close()
	})
	return k
}

func (k *Talk) listen() {
	defer close(k.gone)
	buf := make([]byte, 4096)
	for {
		n, err := k.pty.Read(buf)
		k.mu.Lock()
		k.said = append(k.said, buf[:n]...)
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Expect waits until the program says the words, after those of the last Expect.
func (k *Talk) Expect(words string) {
	k.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for ended := false; ; {
		rest, found := k.look(words)
		switch {
		case found:
			return
		case ended:
			k.t.Fatalf("it never said %q, but:\n%s", words, rest)
		}
		select {
		case <-k.more:
		case <-k.gone:
			ended = true
		case <-late.C:
			k.t.Fatalf("it has not said %q, but:\n%s", words, rest)
		}
	}
}

// Between waits until the program says two texts, one after the other, and returns what
// stands between them.
func (k *Talk) Between(begin, end string) string {
	k.t.Helper()
	k.Expect(begin)
	k.mu.Lock()
	from := k.read
	k.mu.Unlock()
	k.Expect(end)
	k.mu.Lock()
	defer k.mu.Unlock()
	return string(k.said[from : k.read-len(end)])
}

// look looks for words in what nobody has looked at yet.
func (k *Talk) look(words string) (rest string, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest = string(k.said[k.read:])
	at := strings.Index(rest, words)
	if at >= 0 {
		k.read += at + len(words)
	}
	return rest, at >= 0
}

// Type presses keys: "\x03" is Ctrl-C.
func (k *Talk) Type(keys string) {
	k.t.Helper()
	if _, err := k.pty.WriteString(keys); err != nil {
		k.t.Fatal(err)
	}
}

// Answer types a line.
func (k *Talk) Answer(line string) {
	k.t.Helper()
	k.Type(line + "\n")
}

// End waits for the program, and returns its exit code and all it said.
func (k *Talk) End() (code int, said string) {
	k.t.Helper()
	select {
	case <-k.gone:
	case <-time.After(patience):
		k.t.Fatal("it does not end")
	}
	_ = k.cmd.Wait() // its code says it all
	return k.cmd.ProcessState.ExitCode(), string(k.said)
}
