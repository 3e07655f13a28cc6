package api

import (
	"bytes"
	"strings"
	"testing"
)

func TestSanitizer(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"plain":                        {"epoch 1\tloss 0.5\r\n", "epoch 1\tloss 0.5\r\n"},
		"letters of all sorts":         {"é ü ½ 数 🚀 \u00a0.", "é ü ½ 数 🚀 \u00a0."},
		"a colour":                     {"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
		"a colour of many":             {"\x1b[38:2:10:20:30mtrue\x1b[m", "\x1b[38:2:10:20:30mtrue\x1b[m"},
		"a progress bar":               {" 10%\r 20%\r\n", " 10%\r 20%\r\n"},
		"the screen is cleared":        {"a\x1b[2J\x1b[H\x1b[3Ab", "ab"},
		"a mode is set":                {"a\x1b[?1049h\x1b[>4;2mb", "ab"},
		"a device is asked":            {"a\x1b[6n\x1b[c\x05b", "ab"},
		"the window has a title":       {"a\x1b]0;owned\x07b\x1b]2;owned\x1b\\c", "abc"},
		"the clipboard is written":     {"a\x1b]52;c;cm0gLXJm\x07b", "ab"},
		"a device control string":      {"a\x1bP$q\"p\x1b\\b\x1b_app\x1b\\c", "abc"},
		"a charset, a reset":           {"a\x1b(0b\x1bcc\x1b7d", "abcd"},
		"bell, backspace, delete, NUL": {"a\x07\x08\x7f\x00\x0e\x0bb", "ab"},
		"C1 controls":                  {"a\u009b2Jb\u009d0;owned\x07c\u0085d", "abcd"},
		"a colour by a C1 control":     {"\u009b31mred\x1b[0m", "\x1b[31mred\x1b[0m"},
		"a string that never ends":     {"a\x1b]0;owned\nb", "a\nb"},
		"a sequence that is broken":    {"a\x1b[12\x1b[31mb\x1b[0m\x1b\nc", "a\x1b[31mb\x1b[0m\nc"},
		"a colour that never ends":     {"\x1b[" + strings.Repeat("1;", 500) + "1mb", "b"},
		"a string that ends by ST":     {"a\x1b]8;;http://x\x1b\\link\nb\x07c", "alink\nbc"},
		"the direction of writing":     {"a\u202eb\u2066c", "abc"},
		"bytes that are no text":       {"caf\xe9 \xff.", "caf? ?."},
		"a colour at the end":          {"\x1b[32mgreen", "\x1b[32mgreen\x1b[0m"},
	} {
		t.Run(name, func(t *testing.T) {
			var whole, pieces bytes.Buffer
			a, b := NewSanitizer(&whole), NewSanitizer(&pieces)
			_, _ = a.Write([]byte(tt.text))
			for i := range len(tt.text) {
				_, _ = b.Write([]byte(tt.text[i : i+1]))
			}
			a.ResetColour()
			b.ResetColour()
			if whole.String() != tt.want {
				t.Errorf("%q becomes %q, want %q", tt.text, whole.String(), tt.want)
			}
			if pieces.String() != tt.want {
				t.Errorf("in pieces, %q becomes %q, want %q", tt.text, pieces.String(), tt.want)
			}
		})
	}
}
