package term

import (
	"bytes"
	"strings"
	"testing"
)

func TestSayIntoAPipe(t *testing.T) {
	var said bytes.Buffer
	text := strings.Repeat("word ", 60) + "end"
	New(nil, nil, &said).Say("%s", text)
	if said.String() != text+"\n" {
		t.Errorf("said %q", said.String())
	}
}

func TestSayClearsLines(t *testing.T) {
	var screen bytes.Buffer
	term := &Terminal{Err: &screen, Live: true}
	term.Draw("⠋ waiting\n  because")
	term.Say("done")
	if want := "⠋ waiting\n  because" + "\r\x1b[K" + "\x1b[A\x1b[K" + "done\n"; screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
}
