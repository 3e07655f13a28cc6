package detect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func splitLines(chunks ...string) []string {
	var s lineSplitter
	var got []string
	read := func(n int, text []byte) { got = append(got, fmt.Sprintf("%d:%s", n, text)) }
	for _, c := range chunks {
		s.feed([]byte(c), read)
	}
	return append(got, "rest:"+string(s.buf))
}

func TestLinesAreCutAtNewlinesAndReturns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chunks, want []string }{
		{[]string{"a\nb\r\nc"}, []string{"1:a", "2:b", "rest:c"}},
		{[]string{"a", "b", "\n", "c\n"}, []string{"1:ab", "2:c", "rest:"}},
		{[]string{"10%\r20%\r", "30%\rdone\n\nx\n"}, []string{"1:10%", "1:20%", "1:30%", "1:done", "3:x", "rest:"}},
		{[]string{"a\r", "\nb\n"}, []string{"1:a", "2:b", "rest:"}},
	} {
		if got := splitLines(c.chunks...); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.chunks, got, c.want)
		}
	}
}

func TestALineWithoutEndIsReadInPiecesThatTearNoWord(t *testing.T) {
	t.Parallel()
	var s lineSplitter
	var all bytes.Buffer
	longest := 0
	read := func(_ int, text []byte) {
		longest = max(longest, len(text))
		if word := "http://n003:8888/x"; bytes.Contains(text, []byte("http")) && !bytes.Contains(text, []byte(word)) {
			t.Errorf("a URL was torn: %q", text[max(0, len(text)-40):])
		}
		all.Write(text)
	}
	log := strings.Repeat("http://n003:8888/x ", 10_000)
	for chunk := range slices.Chunk([]byte(log), 1000) {
		s.feed(chunk, read)
	}
	all.Write(s.buf)
	if all.String() != log || longest > maxLine {
		t.Errorf("%d bytes came through of %d, the longest piece %d", all.Len(), len(log), longest)
	}
}

func TestWhatATerminalHidesIsDropped(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"plain":                                 "plain",
		"\x1b[32m[I]\x1b[0m ok":                 "[I] ok",
		"\x1b]8;;http://x\x1b\\text\x1b]8;;\a!": "text!",
		"a\x00b":                                "ab",
		"cut \x1b[3":                            "cut ",
		"\x1b":                                  "",
		"\x1b(Bx":                               "x",
	} {
		if got := cleanLine([]byte(raw)); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

func TestWrappedURLsAreJoinedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("0a1b2c", 8)
	for _, c := range []struct {
		first, next string
		joined      bool
	}{
		{"http://n003:8888/?token=" + token[:30], token[30:], true},
		{"http://n003:8888/?token=" + token[:30], "    " + token[30:], true},
		{"http://n003:8888/?token=" + token[:30], token[:20], false},
		{"http://n003:8888/?token=" + token, token, false},
		{"http://n003:8888/?", "token=" + token, true},
		{"http://n003:8888/lab", "n003.cluster", false},
		{"http://n003:8888/?token=" + token[:30], "or http://127.0.0.1:8888/", false},
		{"running at http://(n003 or \\", "  127.0.0.1):8888/", true},
		{strings.Repeat("x", 60) + " http://n003:1889", "0/?token=" + token[:9], false},
	} {
		var g wrapWidth
		g.observe(len(c.first))
		if got, ok := g.join(c.first, c.next); ok != c.joined {
			t.Errorf("%q + %q: %v (%q), want %v", c.first, c.next, ok, got, c.joined)
		}
	}
	g := wrapWidth{width: 77, full: 2}
	first := strings.Repeat("x", 60) + " http://n003:1889"
	if got, ok := g.join(first, "0/?token=ab and more"); !ok || got != first+"0/?token=ab" {
		t.Errorf("at the terminal's edge: %v, %q", ok, got)
	}
}
