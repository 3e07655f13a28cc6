//go:build unix

package mux

import (
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
)

// terminal is a pseudo-terminal of ours that stands for a guest's own: a master reads
// the kind, the size and the modes of the one it is given.
type terminal struct {
	kind      string
	near, far *os.File
}

// wantTerminal makes a terminal for the program to come (RFC 4254, section 6.2).
func (s *session) wantTerminal(payload []byte) (bool, error) {
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
	if s.terminal != nil || s.begun || s.closed {
		return false, nil
	}
	near, far, err := pty.Open()
	if err != nil {
		return false, err
	}
	s.terminal = &terminal{kind: want.Kind, near: near, far: far}
	s.terminal.size(want.Columns, want.Rows)
	return true, nil
}

// resize tells the master of a new size as ssh does: by a signal, at which it looks
// (RFC 4254, section 6.7).
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
	_ = pty.Setsize(t.near, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
}

// raw ends all work of our terminal on what passes: the host's does it.
func (t *terminal) raw() { _, _ = term.MakeRaw(int(t.near.Fd())) }
