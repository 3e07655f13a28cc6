package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal is where the program reads and writes: data on out, messages on err. Without
// a terminal there, or with NO_COLOR, everything is plain lines.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	live     bool   // messages go to a terminal that can redraw a line
	asks     bool   // there is a person to ask
	program  string // what runs this tunctl in another terminal; "" where its name does

	mu       sync.Mutex // one line at a time
	line     string     // the unfinished line on the terminal, or lines
	question string     // what is asked now, in place of that line

	turn    sync.Mutex       // held while a question is open
	typed   []byte           // typed, and not asked for yet
	lines   *bufio.Reader    // in, where a read cannot be ended
	pending <-chan typedLine // a read that a question left behind
}

func newTerminal(in io.Reader, out, err io.Writer) *terminal {
	return &terminal{
		in: in, out: out, err: err,
		live: isTerminal(err) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		asks: isTerminal(err) && isTerminal(in),
	}
}

// command is what to type in another terminal.
func (t *terminal) command(words string) string { return cmp.Or(t.program, "tunctl") + " " + words }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// json prints v as data.
func (t *terminal) json(v any) error {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// indented prints v as data that a person may read.
func (t *terminal) indented(v any) error {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// say prints a message.
func (t *terminal) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked()
	fmt.Fprintln(t.err, wrapTalk(fmt.Sprintf(format, args...), t.width()))
	fmt.Fprint(t.err, t.question)
}

// draw replaces the unfinished line, or lines, at the bottom of the terminal, unless a
// question is there.
func (t *terminal) draw(line string) {
	if !t.live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	line = t.fit(line)
	if line == t.line || t.question != "" {
		return
	}
	t.clearLocked()
	fmt.Fprint(t.err, line)
	t.line = line
}

// fit cuts lines to the terminal's width: one that the terminal breaks cannot be redrawn.
func (t *terminal) fit(text string) string {
	width := t.width()
	if width == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = shorten(line, width-1)
	}
	return strings.Join(lines, "\n")
}

// width is how wide the terminal is that messages go to; 0 where there is none, or next
// to nothing fits.
func (t *terminal) width() int {
	f, ok := t.err.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 10 {
		return 0
	}
	return width
}

// clearLocked removes the unfinished line, or the question, where the terminal can; else
// that ends where it is.
func (t *terminal) clearLocked() {
	rows := strings.Count(t.line, "\n")
	switch {
	case t.question != "" && !t.live:
		fmt.Fprintln(t.err)
		return
	case t.question != "":
		if width := t.width(); width > 0 { // the terminal breaks a long one
			rows = utf8.RuneCountInString(t.question) / width
		}
	case t.line == "":
		return
	}
	fmt.Fprint(t.err, "\r\x1b[K", strings.Repeat("\x1b[A\x1b[K", rows))
	t.line = ""
}

// paint colours text on a terminal.
func (t *terminal) paint(colour, text string) string {
	if !t.live {
		return text
	}
	return colour + text + "\x1b[0m"
}

// The colours in use. They are never the only sign of anything.
const (
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	grey   = "\x1b[90m"
	bold   = "\x1b[1m"
)

// readLine asks a question and reads the answer, without echo where asked: that is
// off before the question can be seen, for whoever answers at once. The end of ctx ends
// it, and leaves the terminal as it was: a question that was withdrawn disappears, with
// what was typed so far. One question is asked at a time; messages go above it.
func (t *terminal) readLine(ctx context.Context, question string, echo bool) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	restore := func() {}
	f, isFile := t.in.(*os.File)
	if isFile && !echo {
		if shown, err := hideTyping(f.Fd()); err == nil {
			restore = shown
		}
	}
	t.ask(question)
	text, err := t.typedLine(ctx)
	withdrawn := err != nil && errors.Is(context.Cause(ctx), errWithdrawn)
	if withdrawn && isFile {
		dropTyped(f.Fd())
	}
	restore()
	t.asked(withdrawn, echo && err == nil)
	return text, err
}

// ask shows a question in place of the unfinished line.
func (t *terminal) ask(question string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked()
	fmt.Fprint(t.err, question)
	t.question = question
}

// asked ends a question: its line is removed where it was withdrawn, and else ends,
// unless the answer that the terminal shows has ended it.
func (t *terminal) asked(withdrawn, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case withdrawn:
		t.clearLocked()
	case !ended:
		fmt.Fprintln(t.err)
	}
	t.question = ""
}

// typedLine reads one line. Where the system can wait for typing or the end of ctx,
// whichever comes first, nothing is read after the end.
func (t *terminal) typedLine(ctx context.Context) (string, error) {
	f, isFile := t.in.(*os.File)
	for isFile {
		if line, rest, whole := bytes.Cut(t.typed, []byte("\n")); whole {
			t.typed = rest
			return strings.TrimRight(string(line), "\r"), nil
		}
		err := awaitInput(ctx, f)
		if errors.Is(err, errors.ErrUnsupported) {
			break
		}
		if err != nil {
			return "", err
		}
		some := make([]byte, 4096)
		n, err := f.Read(some)
		t.typed = append(t.typed, some[:n]...)
		if err != nil {
			return string(t.typed), err
		}
	}
	return t.pendingLine(ctx)
}

// pendingLine reads one line where a read cannot be ended: the next question gets the
// line of one that was left behind.
func (t *terminal) pendingLine(ctx context.Context) (string, error) {
	if t.lines == nil {
		t.lines = bufio.NewReader(t.in)
	}
	if t.pending == nil {
		pending := make(chan typedLine, 1)
		t.pending = pending
		go func() {
			text, err := t.lines.ReadString('\n')
			pending <- typedLine{strings.TrimRight(text, "\r\n"), err}
		}()
	}
	select {
	case line := <-t.pending:
		t.pending = nil
		return line.text, line.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// typedLine is what a person typed, or why nothing can be read.
type typedLine struct {
	text string
	err  error
}
