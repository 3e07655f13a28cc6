package main

import (
	"strings"
	"testing"

	"tunctl/internal/term"
)

func TestAPersonAtATerminalIsAskedBeforeAJobIsCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typed      string
		sure, asks bool
		goesOn     bool
		asked      bool
	}{
		"yes":               {typed: "yes\n", asks: true, goesOn: true, asked: true},
		"y":                 {typed: "Y\n", asks: true, goesOn: true, asked: true},
		"only Enter":        {typed: "\n", asks: true, asked: true},
		"no":                {typed: "no\n", asks: true, asked: true},
		"the end of input":  {typed: "", asks: true, asked: true},
		"sure":              {sure: true, asks: true, goesOn: true},
		"nobody to ask":     {goesOn: true},
		"something strange": {typed: "maybe\n", asks: true, asked: true},
	} {
		var said strings.Builder
		terminal := &term.Terminal{In: strings.NewReader(c.typed), Out: &strings.Builder{}, Err: &said, Interactive: c.asks}
		err := confirm(t.Context(), terminal, c.sure, "Cancel job 7?", "nothing was cancelled")
		if (err == nil) != c.goesOn || exitCode(err) == 0 != c.goesOn {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(said.String(), "Cancel job 7? [y/N]") != c.asked {
			t.Errorf("%s: said %q", name, said.String())
		}
	}
}
