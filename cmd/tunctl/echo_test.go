//go:build linux

package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func TestTypingIsHiddenBeforeASecretIsAskedFor(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	defer func() { _ = tty.Close() }()
	echoes := func() bool {
		mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return mode.Lflag&unix.ECHO != 0
	}
	screen := func(want string) { // reads what is shown until it is all there
		t.Helper()
		var shown bytes.Buffer
		for one := make([]byte, 1); !bytes.Contains(shown.Bytes(), []byte(want)); {
			if _, err := io.ReadFull(master, one); err != nil {
				t.Fatalf("shown: %q, %v", shown.String(), err)
			}
			shown.Write(one)
		}
		if bytes.Contains(shown.Bytes(), []byte("hunter2")) {
			t.Errorf("the secret is shown: %q", shown.String())
		}
	}
	for range 20 {
		term := newTerminal(tty, tty, tty)
		answered := make(chan string)
		go func() {
			text, err := term.readLine(t.Context(), "narval: password: ", false)
			if err != nil {
				t.Error(err)
			}
			answered <- text
		}()
		screen("password: ")
		if echoes() {
			t.Fatal("the question is there, and what is typed would be shown")
		}
		if _, err := io.WriteString(master, "hunter2\n"); err != nil {
			t.Fatal(err)
		}
		if text := <-answered; text != "hunter2" {
			t.Errorf("answer %q", text)
		}
		screen("\n")
		if !echoes() {
			t.Fatal("typing stays hidden afterwards")
		}
	}
}
