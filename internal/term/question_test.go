//go:build linux

package term

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// screen is a terminal, seen and typed at from outside.
type screen struct {
	t      *testing.T
	master *os.File
	tty    *os.File
}

func newScreen(t *testing.T) *screen {
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
	return &screen{t, master, tty}
}

// expect reads what is shown until the words are there, and returns it.
func (s *screen) expect(words string) string {
	s.t.Helper()
	if err := s.master.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
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

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatal(err)
	}
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

func TestAWithdrawnQuestionTakesNothingOfWhatIsTypedNext(t *testing.T) {
	for _, echo := range []bool{true, false} {
		s := newScreen(t)
		term := New(s.tty, s.tty, s.tty)
		first, withdraw := s.asks(term, "narval: password: ", echo)
		s.expect("password: ")
		s.press("half of i")
		withdraw()
		if a := <-first; !errors.Is(a.err, context.Canceled) || a.text != "" {
			t.Errorf("withdrawn with %q, %v", a.text, a.err)
		}
		s.expect("\r\x1b[K")
		second, _ := s.asks(term, "rorqual: code: ", echo)
		s.expect("code: ")
		s.press("123456\n")
		if a := <-second; a.text != "123456" || a.err != nil {
			t.Errorf("the next answer is %q, %v", a.text, a.err)
		}
	}
}

func TestTheNextQuestionGetsTheLineWhereAReadCannotBeEnded(t *testing.T) {
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

func TestAMessageGoesAboveAnOpenQuestionAndTheSpinnerWaits(t *testing.T) {
	s := newScreen(t)
	term := New(s.tty, s.tty, s.tty)
	answer, withdraw := s.asks(term, "narval: code: ", true)
	s.expect("code: ")
	term.Draw("⠋ connecting")
	term.Say("the queue is long")
	if got := s.expect("code: "); got != "\r\x1b[Kthe queue is long\r\nnarval: code: " {
		t.Errorf("shown: %q", got)
	}
	withdraw()
	<-answer
	term.Draw("⠙ connecting")
	if got := s.expect("connecting"); got != "\r\x1b[K⠙ connecting" {
		t.Errorf("after the question: %q", got)
	}
}

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

func TestAnAnswerIsTypedAfterItsQuestion(t *testing.T) {
	for _, echo := range []bool{true, false} {
		s := newScreen(t)
		term := New(s.tty, s.tty, s.tty)
		s.press("early\nearlier\nha")
		s.expect("ha") // the echo: the terminal has it
		if text, err := term.ReadLine(t.Context(), "", true); text != "early" || err != nil {
			t.Errorf("a line may be typed in advance: %q, %v", text, err)
		}
		answer := make(chan string)
		go func() {
			text, _ := term.ReadAnswer(t.Context(), "password: ", echo)
			answer <- text
		}()
		s.expect("password: ")
		s.press("hunter2\n")
		if text := <-answer; text != "hunter2" {
			t.Errorf("echo %v: the answer is %q", echo, text)
		}
	}
}
