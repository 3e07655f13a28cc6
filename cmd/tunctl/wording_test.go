package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"tunctl/internal/dev/manpage"
	"tunctl/internal/dev/wording"
)

// TestHelpWording reads them as they are shown: put together from many
// strings, and wrapped.
func TestHelpWording(t *testing.T) {
	texts := manpage.All(testApp())
	texts["tunctl --help"] = helpOf(t)
	eachOf(testApp().Commands, nil, func(c *cli.Command, words []string) {
		if !c.SkipFlagParsing { // else it reads its own arguments, for other programs, and has no help
			texts[strings.Join(words, " ")] = helpOf(t, words...)
		}
	})
	for name, text := range texts {
		for _, f := range wording.Find(text) {
			t.Errorf("%s: %s", name, f)
		}
	}
}
