package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// terminal is where the program talks: data on out, talk on err. Without a
// terminal there, or with NO_COLOR, everything is plain lines.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	live     bool // talk goes to a terminal that can redraw a line
	asks     bool // there is a person to ask

	mu   sync.Mutex // one line at a time
	line string     // the unfinished line on the terminal, or lines
}

func newTerminal(in io.Reader, out, err io.Writer) *terminal {
	return &terminal{
		in: in, out: out, err: err,
		live: isTerminal(err) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		asks: isTerminal(err) && isTerminal(in),
	}
}

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

// say prints a line of talk.
func (t *terminal) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked()
	fmt.Fprintln(t.err, wrapTalk(fmt.Sprintf(format, args...), t.width()))
}

// draw replaces the unfinished line, or lines, at the bottom of the terminal.
func (t *terminal) draw(line string) {
	if !t.live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	line = t.fit(line)
	if line == t.line {
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

// width is how wide the terminal is that talk goes to; 0 where there is none, or next
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

func (t *terminal) clearLocked() {
	if t.line != "" {
		fmt.Fprint(t.err, "\r\x1b[K", strings.Repeat("\x1b[A\x1b[K", strings.Count(t.line, "\n")))
		t.line = ""
	}
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
// off before the question can be seen, for whoever answers at once. A Ctrl-C, which
// ends ctx, leaves the terminal as it was.
func (t *terminal) readLine(ctx context.Context, question string, echo bool) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked()
	if f, ok := t.in.(*os.File); ok && !echo {
		if restore, err := hideTyping(f.Fd()); err == nil {
			defer restore()
		}
	}
	fmt.Fprint(t.err, question)
	type answer struct {
		text string
		err  error
	}
	read := make(chan answer, 1)
	// A read from a terminal cannot be cancelled: after a Ctrl-C the goroutine is
	// left behind for the moment until the program ends.
	go func() {
		text, err := bufio.NewReader(t.in).ReadString('\n')
		read <- answer{strings.TrimRight(text, "\r\n"), err}
	}()
	select {
	case a := <-read:
		if !echo {
			fmt.Fprintln(t.err)
		}
		return a.text, a.err
	case <-ctx.Done():
		fmt.Fprintln(t.err)
		return "", ctx.Err()
	}
}
