//go:build unix

package desktest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nobody is the user of that name.
const nobody = 65534

// listLoop lists the command lines of all processes for ever. Each word ends with a NUL.
const listLoop = `while :; do cat /proc/[0-9]*/cmdline 2>/dev/null; sleep 0.01; done`

// ProcessWatcher lists the processes of the machine all the time, as another user if the
// test is root; every user can read all command lines.
type ProcessWatcher struct {
	t testing.TB

	mu   sync.Mutex
	seen map[string]bool // words of command lines
}

// WatchProcesses watches until the test ends. It needs /proc of Linux.
func WatchProcesses(t testing.TB) *ProcessWatcher {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", listLoop)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &ProcessWatcher{t: t, seen: map[string]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		words := bufio.NewScanner(out)
		words.Buffer(nil, 1<<22)
		words.Split(splitNUL)
		for words.Scan() {
			o.mu.Lock()
			o.seen[words.Text()] = true
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		_ = cmd.Wait()
	})
	return o
}

// Saw returns the words that were seen and contain part.
func (o *ProcessWatcher) Saw(part string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var words []string
	for w := range o.seen {
		if strings.Contains(w, part) {
			words = append(words, w)
		}
	}
	return words
}

// Await waits until a word that contains part is seen: a short process may be missed, so
// a test makes sure that it was seen.
func (o *ProcessWatcher) Await(part string) {
	o.t.Helper()
	for limit := time.Now().Add(patience); len(o.Saw(part)) == 0; {
		if time.Now().After(limit) {
			o.t.Fatalf("no process was seen with %q in its command line", part)
		}
		select {
		case <-time.After(glance):
		case <-o.t.Context().Done():
		}
	}
}

// splitNUL splits at NULs.
func splitNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
