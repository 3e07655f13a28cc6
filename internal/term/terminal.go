// Package term is what any output on a terminal needs: messages above a line that is
// redrawn, questions and their answers, tables, widths and wrapping, colours.
// It knows nothing of the agent, of commands or of exit codes.
package term

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"tunctl/internal/api"

	xterm "golang.org/x/term"
)

// Terminal is where a program reads and writes: data on Out, messages on Err. Without a
// terminal there, or with NO_COLOR, everything is plain lines.
type Terminal struct {
	Encoded     bool // JSON was printed
	In          io.Reader
	Out, Err    io.Writer
	Live        bool // messages go to a terminal that can redraw a line
	Interactive bool // there is the user to ask

	mu       sync.Mutex // one line at a time
	line     string     // the unfinished line on the terminal, or lines
	question string     // the open question, in place of that line

	turn    sync.Mutex       // held while a question is open
	typed   []byte           // typed, and not returned yet
	lines   *bufio.Reader    // In, where a read cannot be cancelled
	pending <-chan typedLine // a read that a question left behind
}

// New returns the terminal of three streams, any of which may be a file or a pipe.
func New(in io.Reader, out, err io.Writer) *Terminal {
	if IsTerminal(out) { // else it may be data, as of `tunctl ssh HOST cat FILE`
		out = inLocale(out)
	}
	err = inLocale(err)
	return &Terminal{
		In: in, Out: out, Err: err,
		Live:        IsTerminal(err) && hasColours(),
		Interactive: IsTerminal(err) && IsTerminal(in),
	}
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool { return xterm.IsTerminal(fd(stream)) }

func hasColours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// ForPrompts returns the terminal for a command whose standard input is data: like ssh, it
// asks at the terminal that the program was started from, if any. Call done after the last
// question.
func (t *Terminal) ForPrompts() (prompts *Terminal, done func()) {
	if t.Interactive || !IsTerminal(t.Err) {
		return t, func() {}
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return t, func() {}
	}
	return New(tty, t.Out, t.Err), func() { _ = tty.Close() }
}

// PrintJSON prints v in one line.
func (t *Terminal) PrintJSON(v any) error { return t.encode(v, "") }

// PrintIndentedJSON prints v so that the user can read it.
func (t *Terminal) PrintIndentedJSON(v any) error { return t.encode(v, "  ") }

func (t *Terminal) encode(v any, indent string) error {
	t.Encoded = true
	out := t.Out
	if IsTerminal(out) { // JSON escapes not all controls
		out = api.NewSanitizer(out)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// Say prints a message.
func (t *Terminal) Say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked()
	fmt.Fprintln(t.Err, WrapMessage(fmt.Sprintf(format, args...), t.Width()))
	fmt.Fprint(t.Err, t.question)
}

// Draw replaces the unfinished line, or lines, at the bottom of the terminal, unless a
// question is open.
func (t *Terminal) Draw(line string) {
	if !t.Live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if width := t.Width(); width > 0 { // a line that the terminal breaks cannot be redrawn
		lines := strings.Split(line, "\n")
		for i := range lines {
			lines[i] = Truncate(lines[i], width-1)
		}
		line = strings.Join(lines, "\n")
	}
	if line == t.line || t.question != "" {
		return
	}
	t.clearLocked()
	fmt.Fprint(t.Err, line)
	t.line = line
}

// Width is the width of the terminal that messages go to; 0 where there is none, or hardly
// anything fits.
func (t *Terminal) Width() int {
	width, _, err := Size(t.Err)
	if err != nil || width < 10 {
		return 0
	}
	return width
}

// clearLocked removes the unfinished line, or the question. Where the terminal cannot
// redraw, it ends the line.
func (t *Terminal) clearLocked() {
	rows := strings.Count(t.line, "\n")
	switch {
	case t.question != "" && !t.Live:
		fmt.Fprintln(t.Err)
		return
	case t.question != "":
		if width := t.Width(); width > 0 { // the terminal breaks a long one
			rows = utf8.RuneCountInString(t.question) / width
		}
	case t.line == "":
		return
	}
	fmt.Fprint(t.Err, "\r\x1b[K", strings.Repeat("\x1b[A\x1b[K", rows))
	t.line = ""
}

// Paint colours text in a message.
func (t *Terminal) Paint(colour, text string) string {
	return Layout{Colours: t.Live}.Paint(colour, text)
}

// The colours in use. They are never the only sign of anything.
const (
	Green  = "\x1b[32m"
	Red    = "\x1b[31m"
	Yellow = "\x1b[33m"
	Violet = "\x1b[35m"
	Grey   = "\x1b[90m"
	Bold   = "\x1b[1m"

	resetColour = "\x1b[0m"
)

// Size is the size in cells of the terminal behind a stream.
func Size(stream any) (width, height int, err error) { return xterm.GetSize(fd(stream)) }

// MakeRaw has a terminal pass on every key as it is pressed, Ctrl-C included; restore
// undoes that.
func MakeRaw(stream any) (restore func(), err error) {
	before, err := xterm.MakeRaw(fd(stream))
	if err != nil {
		return nil, err
	}
	return func() { _ = xterm.Restore(fd(stream), before) }, nil
}

// fd is the descriptor of a stream, -1 where it has none.
func fd(stream any) int {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return -1
	}
	return int(f.Fd())
}

// ErrWithdrawn is the cause with which a context ends a question that needs no answer
// any more.
var ErrWithdrawn = errors.New("the question was withdrawn")

// ReadLine shows a question and reads the answer. Without echo, typing is hidden before
// the question appears, for those who type at once. The end of ctx ends the question and
// restores the terminal; one that was withdrawn disappears, with what was typed so far. Only
// one question is open at a time; messages go above it.
func (t *Terminal) ReadLine(ctx context.Context, question string, echo bool) (string, error) {
	return t.ask(ctx, question, echo, false)
}

// ReadAnswer is ReadLine for a question that the user has not caused just now, such as
// that of a login. What was typed before it appeared was not meant for it, and is
// discarded, as ssh does.
func (t *Terminal) ReadAnswer(ctx context.Context, question string, echo bool) (string, error) {
	return t.ask(ctx, question, echo, true)
}

// Agrees asks a question that yes or no answers, as ReadAnswer does; Enter is yes if that is assumed.
func (t *Terminal) Agrees(ctx context.Context, question string, assumed bool) (bool, error) {
	answers := " [y/N] "
	if assumed {
		answers = " [Y/n] "
	}
	text, err := t.ReadAnswer(ctx, question+answers, true)
	if strings.TrimSpace(text) == "" {
		return assumed && err == nil, err
	}
	return err == nil && api.Answer{Text: text}.IsYes(), err
}

// discardTyped discards what was typed and not read.
func (t *Terminal) discardTyped() {
	t.typed = nil
	if f, isFile := t.In.(*os.File); isFile {
		dropTyped(f.Fd())
	}
	select {
	case <-t.pending:
		t.pending = nil
	default:
	}
}

// ask reads the answer to a question, on demand without what was typed before it.
func (t *Terminal) ask(ctx context.Context, question string, echo, fresh bool) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if fresh && IsTerminal(t.In) {
		t.discardTyped()
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	restore := func() {}
	if f, isFile := t.In.(*os.File); isFile && !echo {
		if shown, err := hideTyping(f.Fd()); err == nil {
			restore = shown
		}
	}
	t.mu.Lock()
	t.clearLocked()
	fmt.Fprint(t.Err, question)
	t.question = question
	t.mu.Unlock()
	text, err := t.readTyped(ctx)
	withdrawn := err != nil && errors.Is(context.Cause(ctx), ErrWithdrawn)
	if withdrawn {
		t.discardTyped()
	}
	restore()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case withdrawn:
		t.clearLocked()
	case !echo || err != nil: // no echo of the answer has ended the line
		fmt.Fprintln(t.Err)
	}
	t.question = ""
	return text, err
}

// readTyped reads one line. Where the system can wait for input and for the end of ctx at
// once, nothing is read after that end.
func (t *Terminal) readTyped(ctx context.Context) (string, error) {
	f, isFile := t.In.(*os.File)
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

// pendingLine reads one line where a read cannot be cancelled: the next question gets the
// line of a read that was left behind.
func (t *Terminal) pendingLine(ctx context.Context) (string, error) {
	if t.lines == nil {
		t.lines = bufio.NewReader(t.In)
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

// typedLine is what the user typed, or why nothing can be read.
type typedLine struct {
	text string
	err  error
}
