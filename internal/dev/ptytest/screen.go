//go:build unix

package ptytest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ExpectScreen waits until the screen shows text, within a line, and returns the screen.
func (p *Program) ExpectScreen(words string) string {
	p.t.Helper()
	return p.AwaitScreen("has not shown "+strconv.Quote(words), func(screen string) bool { return strings.Contains(screen, words) })
}

// AwaitScreen waits until the screen is as wanted, and returns it; otherwise says what it never did.
func (p *Program) AwaitScreen(otherwise string, want func(screen string) bool) string {
	p.t.Helper()
	late := time.NewTimer(timeout)
	defer late.Stop()
	for ended := false; ; {
		screen := p.Screen()
		if want(screen) {
			return screen
		}
		if ended {
			p.t.Fatalf("it ended, and %s:\n%s", otherwise, screen)
		}
		select {
		case <-p.more:
		case <-p.ended:
			ended = true
		case <-late.C:
			p.t.Fatalf("it %s:\n%s", otherwise, screen)
		}
	}
}

// Screen is what the terminal shows now, without colours.
func (p *Program) Screen() string {
	s := p.screen()
	lines := make([]string, len(s.cells))
	for i, row := range s.cells {
		lines[i] = strings.TrimRight(text(row), " ")
	}
	return strings.Join(lines, "\n")
}

func (p *Program) screen() *screen {
	p.mu.Lock()
	output := string(p.output)
	p.mu.Unlock()
	s := newScreen(p.columns, p.rows)
	s.write(output)
	return s
}

// screen is the screen of an xterm, as far as full-screen programs use it (ECMA-48): rows
// of characters, where the cursor is, which rows scroll, and how characters look now.
type screen struct {
	cells       [][]cell
	x, y        int // x is the width after the last character of a line
	top, bottom int // the first row that scrolls, and the one after the last
	look        look
}

// cell is a character and how it looks.
type cell struct {
	char rune
	look look
}

// look is how characters look: bold, and in one of the sixteen colours.
type look struct {
	bold   bool
	colour int // as in a control sequence: 32 is green; 0: the usual one
}

func text(row []cell) string {
	runes := make([]rune, len(row))
	for i, c := range row {
		runes[i] = c.char
	}
	return string(runes)
}

func newScreen(columns, rows int) *screen {
	s := &screen{cells: make([][]cell, rows), bottom: rows}
	for y := range s.cells {
		s.cells[y] = blank(columns)
	}
	return s
}

func blank(columns int) []cell { return slices.Repeat([]cell{{char: ' '}}, columns) }

// sequence is an escape sequence: a control sequence with its parameters, a string up to
// its end, or two characters.
var sequence = regexp.MustCompile(`^\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*([0-~]))`)

func (s *screen) write(text string) {
	for text != "" {
		if found := sequence.FindStringSubmatch(text); found != nil {
			if found[3] == "M" {
				s.up()
			}
			s.control(found[1], found[2])
			text = text[len(found[0]):]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '\r':
			s.x = 0
		case r == '\n':
			s.down()
		case r == '\b':
			s.x = max(0, s.x-1)
		case r == '\t':
			s.x = min(s.x/8*8+8, s.width()-1)
		case r >= ' ':
			s.put(r)
		}
	}
}

func (s *screen) width() int { return len(s.cells[0]) }

func (s *screen) put(r rune) {
	if s.x >= s.width() {
		s.x = 0
		s.down()
	}
	s.cells[s.y][s.x] = cell{r, s.look}
	s.x++
}

// down moves to the next row; at the last one the rows scroll.
func (s *screen) down() {
	if s.y == s.bottom-1 {
		s.scroll(s.top, 1)
	} else {
		s.y = min(s.y+1, len(s.cells)-1)
	}
}

// up moves to the row before; at the first one the rows scroll.
func (s *screen) up() {
	if s.y == s.top {
		s.scroll(s.top, -1)
	} else {
		s.y = max(0, s.y-1)
	}
}

// scroll moves the rows from one on up by n, down if n is negative.
func (s *screen) scroll(from, n int) {
	rows := s.cells[from:s.bottom]
	for range min(max(n, -n), len(rows)) {
		if n > 0 {
			copy(rows, rows[1:])
			rows[len(rows)-1] = blank(s.width())
		} else {
			copy(rows[1:], rows)
			rows[0] = blank(s.width())
		}
	}
}

// control obeys a control sequence.
func (s *screen) control(parameters, final string) {
	if strings.HasPrefix(parameters, ">") { // of the keyboard
		return
	}
	if strings.HasPrefix(parameters, "?") {
		if parameters == "?1049" { // another screen, which is empty
			*s = *newScreen(s.width(), len(s.cells))
		}
		return
	}
	number := func(i, otherwise int) int {
		if list := strings.Split(parameters, ";"); i < len(list) {
			if n, err := strconv.Atoi(list[i]); err == nil {
				return n
			}
		}
		return otherwise
	}
	n := number(0, 1)
	at := min(s.x, s.width()-1)
	row := s.cells[s.y]
	switch final {
	case "A":
		s.y -= n
	case "B", "e":
		s.y += n
	case "C", "a":
		s.x = at + n
	case "D":
		s.x = at - n
	case "E":
		s.x, s.y = 0, s.y+n
	case "F":
		s.x, s.y = 0, s.y-n
	case "G", "`":
		s.x = n - 1
	case "I":
		s.x = (at/8 + n) * 8
	case "Z":
		s.x = ((at+7)/8 - n) * 8
	case "d":
		s.y = n - 1
	case "H", "f":
		s.y, s.x = n-1, number(1, 1)-1
	case "K":
		s.erase(s.y, number(0, 0))
		return
	case "J":
		s.eraseLines(number(0, 0))
		return
	case "X":
		copy(row[at:], blank(min(n, len(row)-at)))
		return
	case "@":
		n = min(n, len(row)-at)
		copy(row[at+n:], row[at:])
		copy(row[at:], blank(n))
		return
	case "P":
		n = min(n, len(row)-at)
		copy(row[at:], row[at+n:])
		copy(row[len(row)-n:], blank(n))
		return
	case "b":
		for last := row[max(0, s.x-1)]; n > 0; n-- {
			s.put(last.char)
		}
		return
	case "L":
		s.scroll(s.y, -n)
	case "M":
		s.scroll(s.y, n)
	case "S":
		s.scroll(s.top, n)
	case "T":
		s.scroll(s.top, -n)
	case "r":
		s.top, s.bottom = n-1, number(1, len(s.cells))
		s.x, s.y = 0, 0
	case "m":
		s.look = s.look.changed(parameters)
		return
	default: // what shows nothing
		return
	}
	s.x, s.y = min(max(0, s.x), s.width()-1), min(max(0, s.y), len(s.cells)-1)
}

// changed is the look after a control sequence with these parameters.
func (l look) changed(parameters string) look {
	for parameter := range strings.SplitSeq(parameters, ";") {
		switch n, _ := strconv.Atoi(parameter); { // none is 0
		case n == 0:
			l = look{}
		case n == 1:
			l.bold = true
		case n == 22:
			l.bold = false
		case n == 38, n == 48: // one of more colours, which the rest names
			return l
		case n == 39:
			l.colour = 0
		case n >= 30 && n <= 37, n >= 90 && n <= 97:
			l.colour = n
		}
	}
	return l
}

// erase clears a line: 0 from the cursor on, 1 up to it, 2 all of it.
func (s *screen) erase(y, how int) {
	from, to := min(s.x, s.width()-1), s.width()
	if how == 1 {
		to = from + 1
	}
	if how > 0 {
		from = 0
	}
	copy(s.cells[y][from:], blank(to-from))
}

// eraseLines clears the screen: 0 from the cursor on, 1 up to it, 2 all of it.
func (s *screen) eraseLines(how int) {
	for y := range s.cells {
		switch {
		case how == 2, how == 0 && y > s.y, how == 1 && y < s.y:
			s.erase(y, 2)
		case y == s.y:
			s.erase(y, how)
		}
	}
}
