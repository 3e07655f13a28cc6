package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSanitizeLeavesNothingThatATerminalObeys(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"plain":                   {"two\nlines\tand a tab", "two\nlines\tand a tab"},
		"other scripts":           {"ünïcode 日本語 👩\u200d🔬", "ünïcode 日本語 👩\u200d🔬"},
		"a colour":                {"\x1b[1;31mred\x1b[0m", "red"},
		"a cursor move":           {"a\x1b[2J\x1b[Hb", "ab"},
		"a title":                 {"bye\x1b]0;owned\x07!", "bye!"},
		"a title ended by ST":     {"bye\x1b]0;owned\x1b\\!", "bye!"},
		"a title without an end":  {"bye\x1b]0;owned\nnext", "bye\nnext"},
		"a clipboard, by C1":      {"a\u009d52;c;AAAA\u009cb", "ab"},
		"a CSI, by C1":            {"a\u009b31mb", "ab"},
		"a device control string": {"a\x1bP+q544e\x1b\\b", "ab"},
		"a charset":               {"a\x1b(0b", "ab"},
		"a reset":                 {"a\x1bcb", "ab"},
		"a sequence cut off":      {"a\x1b[3", "a"},
		"a broken sequence":       {"a\x1b[3\nb", "a\nb"},
		"nested":                  {"a\x1b\x1b[31mb", "ab"},
		"an escape at the end":    {"a\x1b", "a"},
		"an overwritten line":     {"Permission denied\rWelcome", "Permission denied\nWelcome"},
		"Windows line ends":       {"a\r\nb", "a\nb"},
		"bells and backspaces":    {"a\a\b\x00\x7fb", "ab"},
		"a turned direction":      {"safe\u202egpj.exe\u202c \u2066x\u2069", "safegpj.exe x"},
		"invisible characters":    {"a\u200b\ufeff\u00adb", "ab"},
		"a line separator":        {"a\u2028b", "a\nb"},
		"not UTF-8":               {"a\xff\xfeb", "a?b"},
		"a raw C1 byte":           {"a\x9b31mb", "a?31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Sanitize(test.text); got != test.want {
				t.Errorf("Sanitize(%q) = %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("bye\x1b]0;owned\x07\x1b[2J\u202e")
	f.Add("\x1b\x1b[\x1b]\u009b\x9b\r\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := Sanitize(text)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || isHidden(r) {
				t.Errorf("%q is left in %q", r, got)
			}
		}
		if again := Sanitize(got); again != got {
			t.Errorf("a second time gives %q, not %q", again, got)
		}
	})
}

func TestRemoteTextIsSafeWhereverItIsShown(t *testing.T) {
	const raw = " bye\x1b]0;owned\x07\u202e\n"
	text := NewRemoteText(raw)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("said", "text", text)
	asJSON, err := json.Marshal(struct{ Text RemoteText }{text})
	if err != nil {
		t.Fatal(err)
	}
	shown := append([]string{text.String(), log.String(), string(asJSON)}, verbs(text)...)
	shown = append(shown, verbs(&text)...)
	wrapped := fmt.Errorf("the host says %w", RemoteError(fmt.Errorf("%s: %w", raw, io.EOF)))
	shown = append(shown, verbs(wrapped)...)
	for _, s := range shown {
		if strings.ContainsAny(s, "\x1b\x07\u202e") || strings.Contains(s, "owned") {
			t.Errorf("shown as %q", s)
		}
	}
	if text.String() != "bye" || wrapped.Error() != "the host says bye\n: EOF" {
		t.Errorf("%q, %q", text, wrapped)
	}
	if !errors.Is(wrapped, io.EOF) {
		t.Error("the cause is lost")
	}
	if RemoteError(nil) != nil {
		t.Error("nothing became an error")
	}
}

func verbs(v any) []string {
	var all []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		all = append(all, fmt.Sprintf(verb, v))
	}
	return all
}

func TestRemoteTextIsBounded(t *testing.T) {
	text := NewRemoteText(strings.Repeat("é", 1<<20))
	if n := len(text.String()); n > maxRemoteText+len("…") || !utf8.ValidString(text.String()) {
		t.Errorf("%d bytes", n)
	}
	if got := NewRemoteText("first " + strings.Repeat("x", 100) + "\nsecond").FirstLine(10).String(); got != "first xxxx…" {
		t.Errorf("FirstLine: %q", got)
	}
}
