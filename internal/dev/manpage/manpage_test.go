package manpage

import "testing"

func TestWordsForTroffAreShownAsTheyAre(t *testing.T) {
	for in, want := range map[string]string{
		"give `--cancel` too": `give \fB\-\-cancel\fR too`,
		`a\b`:                 `a\eb`,
		"one ` alone":         "one ` alone",
	} {
		if got := boldCode(in); got != want {
			t.Errorf("boldCode(%q) = %q, want %q", in, got, want)
		}
	}
	p := &manPage{}
	p.text(".so /etc/passwd")
	if got := p.String(); got != `\&.so /etc/passwd`+"\n" {
		t.Errorf("a macro slipped in: %q", got)
	}
}
