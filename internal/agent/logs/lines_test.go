package logs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/api"
)

// shownText has each line's parts as STYLE(TEXT).
func shownText(lines []api.LogLine) string {
	var out []string
	for _, line := range lines {
		text := ""
		for _, span := range line {
			if span.Style != "" {
				span.Text = span.Style + "(" + span.Text + ")"
			}
			text += span.Text
		}
		out = append(out, text)
	}
	return strings.Join(out, "|")
}

func TestLiner(t *testing.T) {
	for name, tt := range map[string]struct{ log, want string }{
		"lines":                    {"one\n\ntwo\n", "one||two"},
		"a line that has no end":   {"one\ntw", "one|tw"},
		"a progress bar":           {" 10%\r 20%\r 30%\r\nnext", " 30%|next"},
		"a bar without an end":     {" 10%\r 20%\r", " 20%"},
		"line ends of Windows":     {"one\r\ntwo\r\n", "one|two"},
		"a string ends by ST":      {"\x1b]0;title\x1b\\a\nb\nc\x07", "a|b|c"},
		"colours":                  {"a\x1b[31mred\x1b[1mboth\x1b[0mplain\n", "ared(red)bold red(both)plain"},
		"a colour of many lines":   {"\x1b[32mone\ntwo\x1b[39m.\n", "green(one)|green(two)."},
		"a colour that is hidden":  {"\x1b[32m10%\r20%\n", "green(20%)"},
		"bright, of 256, of many":  {"\x1b[91;1ma\x1b[38;5;31mb\x1b[0;38;2;10;20;31mc\x1b[22;48;5;1md\n", "bold red(a)bold red(b)cd"},
		"black, white, grey":       {"\x1b[30ma\x1b[97mb\x1b[38;5;250mc\n", "abc"},
		"the direction of writing": {"a\u202eb\n", "ab"},
		"bytes that are no text":   {"caf\xe9.\n", "caf?."},
	} {
		for _, size := range []int{1, 3, len(tt.log)} {
			l, open := newLiner(), false
			var got, lines []api.LogLine
			for log := tt.log; log != ""; log = log[min(size, len(log)):] {
				if open {
					got = got[:len(got)-1]
				}
				lines, open = l.add([]byte(log[:min(size, len(log))]))
				got = append(got, lines...)
			}
			if shownText(got) != tt.want {
				t.Errorf("%s, in pieces of %d: %.99q, want %.99q", name, size, shownText(got), tt.want)
			}
		}
	}
}

func TestLinerLongLine(t *testing.T) {
	l := newLiner()
	if lines, open := l.add(bytes.Repeat([]byte("é"), longestLine)); len(lines) != 1 || open || l.rest.Len() > 0 {
		t.Errorf("%d lines, %d bytes are kept", len(lines), l.rest.Len())
	}
}

// TestLinerGrowth: a progress bar of gigabytes without a line end is one line.
func TestLinerGrowth(t *testing.T) {
	l := newLiner()
	for i := range 10_000 {
		lines, open := l.add(fmt.Appendf(nil, "\r\x1b[3%dm%d%%", i%8, i))
		if len(lines) != 1 || !open || l.rest.Len() > 100 {
			t.Fatalf("step %d: %d lines, %d bytes are kept", i, len(lines), l.rest.Len())
		}
	}
}
