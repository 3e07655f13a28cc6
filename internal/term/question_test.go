//go:build linux

package term

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/ptytest"
)

// screen is a terminal, seen and typed at from outside.
type screen struct {
	*ptytest.Terminal
	t *testing.T
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	return &screen{ptytest.NewTerminal(t), t}
}

// asks asks a question until the returned function withdraws it.
func (s *screen) asks(term *Terminal, question string, echo bool) (answer <-chan typedLine, withdraw func()) {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	answers := make(chan typedLine, 1)
	go func() {
		text, err := term.ReadLine(ctx, question, echo)
		answers <- typedLine{text, err}
	}()
	return answers, func() { cancel(ErrWithdrawn) }
}

func TestQuestionWithdrawn(t *testing.T) {
	for _, echo := range []bool{true, false} {
		s := newScreen(t)
		term := New(s.TTY, s.TTY, s.TTY)
		first, withdraw := s.asks(term, "narval: password: ", echo)
		s.Expect("password: ")
		s.Type("half of i")
		withdraw()
		if a := <-first; !errors.Is(a.err, context.Canceled) || a.text != "" {
			t.Errorf("withdrawn with %q, %v", a.text, a.err)
		}
		s.Expect("\r\x1b[K")
		second, _ := s.asks(term, "rorqual: code: ", echo)
		s.Expect("code: ")
		s.Type("123456\n")
		if a := <-second; a.text != "123456" || a.err != nil {
			t.Errorf("the next answer is %q, %v", a.text, a.err)
		}
	}
}

func TestQuestionPendingLine(t *testing.T) {
	typed, types := io.Pipe() // as on a Windows console
	reading := make(chan struct{}, 1)
	s := newScreen(t)
	term := &Terminal{In: told{typed, reading}, Out: io.Discard, Err: io.Discard}
	first, withdraw := s.asks(term, "one? ", true)
	<-reading
	withdraw()
	<-first
	second, _ := s.asks(term, "two? ", true)
	if _, err := io.WriteString(types, "yes\n"); err != nil {
		t.Fatal(err)
	}
	if a := <-second; a.text != "yes" || a.err != nil {
		t.Errorf("the answer is %q, %v", a.text, a.err)
	}
}

// told is a reader that tells when it is read.
type told struct {
	io.Reader
	reading chan<- struct{}
}

func (r told) Read(p []byte) (int, error) {
	r.reading <- struct{}{}
	return r.Reader.Read(p)
}

func TestQuestionBelowMessages(t *testing.T) {
	s := newScreen(t)
	term := New(s.TTY, s.TTY, s.TTY)
	answer, withdraw := s.asks(term, "narval: code: ", true)
	s.Expect("code: ")
	term.Draw("⠋ connecting")
	term.Say("the queue is long")
	if got := s.Expect("code: "); got != "\r\x1b[Kthe queue is long\r\nnarval: code: " {
		t.Errorf("shown: %q", got)
	}
	withdraw()
	<-answer
	term.Draw("⠙ connecting")
	if got := s.Expect("connecting"); got != "\r\x1b[K⠙ connecting" {
		t.Errorf("after the question: %q", got)
	}
}

func TestQuestionHidesTyping(t *testing.T) {
	master, tty, err := pty.Open()
	must.Do(t, err)
	defer func() { _ = master.Close() }()
	defer func() { _ = tty.Close() }()
	echoes := func() bool {
		mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		must.Do(t, err)
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
		term := New(tty, tty, tty)
		answered := make(chan string)
		go func() {
			text, err := term.ReadLine(t.Context(), "narval: password: ", false)
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

func TestQuestionDiscardsTyped(t *testing.T) {
	for _, echo := range []bool{true, false} {
		s := newScreen(t)
		term := New(s.TTY, s.TTY, s.TTY)
		s.Type("early\nearlier\nha")
		s.Expect("ha") // the echo: the terminal has it
		if text, err := term.ReadLine(t.Context(), "", true); text != "early" || err != nil {
			t.Errorf("a line may be typed in advance: %q, %v", text, err)
		}
		answer := make(chan string)
		go func() {
			text, _ := term.ReadAnswer(t.Context(), "password: ", echo)
			answer <- text
		}()
		s.Expect("password: ")
		s.Type("hunter2\n")
		if text := <-answer; text != "hunter2" {
			t.Errorf("echo %v: the answer is %q", echo, text)
		}
	}
}
