package term

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrWithdrawn is the cause with which a context ends a question that needs no answer
// any more.
var ErrWithdrawn = errors.New("the question was withdrawn")

// ReadLine shows a question and reads the answer. Without echo, typing is hidden before
// the question appears, for those who type at once. The end of ctx ends the question and
// restores the terminal; one that was withdrawn disappears, with what was typed so far. Only
// one question is open at a time; messages go above it.
func (t *Terminal) ReadLine(ctx context.Context, question string, echo bool) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	return t.readLine(ctx, question, echo)
}

// ReadAnswer is ReadLine for a question that the user has not caused just now, such as
// that of a login. What was typed before it appeared was not meant for it, and is
// discarded, as ssh does.
func (t *Terminal) ReadAnswer(ctx context.Context, question string, echo bool) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if IsTerminal(t.In) {
		t.discardTyped()
	}
	return t.readLine(ctx, question, echo)
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

func (t *Terminal) readLine(ctx context.Context, question string, echo bool) (string, error) {
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

// Choose lists rows and returns the index of the one that the user answers the question
// with, by its number or by a text that matches it; what names such a text.
func (t *Terminal) Choose(ctx context.Context, question, what string, rows []string, matches func(row int, typed string) bool) (int, error) {
	for i, row := range rows {
		t.Say("%3d) %s", i+1, row)
	}
	for {
		text, err := t.ReadLine(ctx, fmt.Sprintf("%s [1-%d] ", question, len(rows)), true)
		if err != nil {
			return 0, err
		}
		text = strings.TrimSpace(text)
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(rows) {
			return n - 1, nil
		}
		for i := range rows {
			if matches(i, text) {
				return i, nil
			}
		}
		t.Say("%q is not one of them: type a number from 1 to %d, or %s", text, len(rows), what)
	}
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
