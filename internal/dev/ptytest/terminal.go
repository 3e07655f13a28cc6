//go:build unix

package ptytest

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Terminal is a pseudo-terminal that the test itself writes to and reads from, seen and typed at
// from outside.
type Terminal struct {
	TTY    *os.File
	t      *testing.T
	master *os.File
}

// NewTerminal opens a terminal with colours.
func NewTerminal(t *testing.T) *Terminal {
	t.Helper()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = master.Close()
		_ = tty.Close()
	})
	return &Terminal{tty, t, master}
}

// Expect reads what is shown until the words are there, and returns it.
func (s *Terminal) Expect(words string) string {
	s.t.Helper()
	if err := s.master.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		s.t.Fatal(err)
	}
	var shown bytes.Buffer
	for one := make([]byte, 1); !strings.Contains(shown.String(), words); {
		if _, err := io.ReadFull(s.master, one); err != nil {
			s.t.Fatalf("shown: %q, and not %q: %v", shown.String(), words, err)
		}
		shown.Write(one)
	}
	return shown.String()
}

// Type types keys.
func (s *Terminal) Type(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatal(err)
	}
}
