package watchui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestLogTail(t *testing.T) {
	for name, tt := range map[string]struct {
		chunks []string
		want   []string
	}{
		"lines":                  {[]string{"one\ntwo\n"}, []string{"one", "two"}},
		"an unfinished line":     {[]string{"one\ntw", "o"}, []string{"one", "two"}},
		"an empty line":          {[]string{"one\n\ntwo\n"}, []string{"one", "", "two"}},
		"a progress bar":         {[]string{" 10%\r 20%", "\r 30%\r\n"}, []string{" 30%"}},
		"line ends of Windows":   {[]string{"one\r\ntwo\r\n"}, []string{"one", "two"}},
		"a tab":                  {[]string{"a\tb\n"}, []string{"a    b"}},
		"a colour":               {[]string{"\x1b[31mred\x1b[0m\n"}, []string{"red"}},
		"a sequence in two":      {[]string{"a\x1b[3", "1mb\n"}, []string{"ab"}},
		"bytes that are no text": {[]string{"a\xffb\n"}, []string{"a?b"}},
	} {
		var l logTail
		for _, c := range tt.chunks {
			var chunk api.LogChunk
			chunk.SetBytes([]byte(c))
			l.add(chunk)
		}
		if got := l.all(""); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestLogTailLimit(t *testing.T) {
	var l logTail
	for i := range 10 * mostLogLines {
		l.add(api.LogChunk{Text: fmt.Sprintf("line %d\n", i)})
	}
	l.add(api.LogChunk{Text: strings.Repeat("x", 100*longestLine)})
	if lines := l.all(""); len(lines) > mostLogLines+1 || len(l.lines) > 2*mostLogLines || len(l.rest) > longestLine {
		t.Errorf("%d lines are shown, %d kept, and %d bytes", len(lines), len(l.lines), len(l.rest))
	}
}
