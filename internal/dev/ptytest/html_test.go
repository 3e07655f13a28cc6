//go:build unix

package ptytest

import "testing"

func TestHTMLHasTheColoursAndTheCursorOfTheScreen(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"a mark":                   {"\x1b[32m✓\x1b[0m up", `<span class="c32">✓</span> up<span class="cursor"> </span>`},
		"two looks, one after one": {"\x1b[1;31ma\x1b[22mb\x1b[39mc", `<span class="bold c31">a</span><span class="c31">b</span>c<span class="cursor"> </span>`},
		"another line":             {"\x1b[90mgrey\x1b[m\r\n$ ", "<span class=\"c90\">grey</span>\n$ <span class=\"cursor\"> </span>"},
		"markup":                   {"<a&b>\r", `<span class="cursor">&lt;</span>a&amp;b&gt;`},
		"a colour of many":         {"\x1b[38;5;31mx\x1b[>4;2m", `x<span class="cursor"> </span>`},
	} {
		p := &Program{columns: 8, rows: 3, output: []byte(tt.output)}
		if got := p.HTML(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
