//go:build unix

package mux

import (
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
)

// terminal is a pseudo-terminal of ours that represents the person's own: a master reads
// kind, size and modes of the one that it gets.
type terminal struct {
	kind         string
	ours, theirs *os.File
}

// allocTerminal makes a terminal for the program (RFC 4254, section 6.2).
func (s *session) allocTerminal(payload []byte) (bool, error) {
	var want struct {
		Kind                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if err := ssh.Unmarshal(payload, &want); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal != nil || s.started || s.closed {
		return false, nil
	}
	ours, theirs, err := pty.Open()
	if err != nil {
		return false, err
	}
	s.terminal = &terminal{kind: want.Kind, ours: ours, theirs: theirs}
	s.terminal.size(want.Columns, want.Rows)
	return true, nil
}

// resize tells the master of a new size as ssh does, by a signal (RFC 4254, section
// 6.7).
func (s *session) resize(payload []byte) (bool, error) {
	var to struct{ Columns, Rows, Width, Height uint32 }
	if err := ssh.Unmarshal(payload, &to); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal == nil || s.closed {
		return false, nil
	}
	s.terminal.size(to.Columns, to.Rows)
	if s.watched {
		_ = syscall.Kill(s.conn.pid, syscall.SIGWINCH)
	}
	return true, nil
}

func (t *terminal) size(columns, rows uint32) {
	_ = pty.Setsize(t.ours, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
}

// raw puts our terminal into raw mode: the one on the host does the line editing.
func (t *terminal) raw() { _, _ = term.MakeRaw(int(t.ours.Fd())) }
