//go:build unix

package main

import (
	"bufio"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"tunctl/internal/term"
)

func TestTerminalWithoutUTF8(t *testing.T) {
	t.Parallel()
	s := newHome(t, "")
	s.env = append(s.env, "LC_ALL=C")
	_, shown := s.talk("doctor", "--all").End()
	if !strings.Contains(shown, "no config file") || strings.ContainsFunc(shown, func(r rune) bool { return r >= utf8.RuneSelf }) {
		t.Errorf("%q", shown)
	}
}

func TestTerminalWidth(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = screen.Close() }()
	defer func() { _ = tty.Close() }()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	printError(term.New(nil, nil, tty), usagef("%s end", strings.Repeat("several words ", 8)))
	lines := bufio.NewScanner(screen)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		if term.TextWidth(line) > 60 || n > 1 && !strings.HasPrefix(line, strings.Repeat(" ", len("tunctl: error: "))) {
			t.Errorf("line %d is %q", n, line)
		}
		if strings.HasSuffix(line, " end") {
			return
		}
	}
	t.Error("the message does not end")
}
