package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"tunctl/internal/cmdline"
	"tunctl/internal/dev/wording"
)

// TestHelpAndManPagesUsePlainWords reads them as they are shown: put together from many
// strings, and wrapped.
func TestHelpAndManPagesUsePlainWords(t *testing.T) {
	app := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	for name, text := range cmdline.ManPages(app, version()) {
		for _, f := range wording.Find(text) {
			t.Errorf("man page %s: %s", name, f)
		}
	}
	for _, path := range commandPaths(app.Commands) {
		var out bytes.Buffer
		args := append(append([]string{"tunctl"}, path...), "--help")
		if err := newApp(strings.NewReader(""), &out, &out).Run(args); err != nil {
			t.Errorf("%s: %v", strings.Join(args, " "), err)
		}
		for _, f := range wording.Find(out.String()) {
			t.Errorf("%s: %s", strings.Join(args, " "), f)
		}
	}
}

// commandPaths are the words of every command and what is below it, and those of none:
// the program itself. A command that reads its own arguments, for other programs, has no
// help.
func commandPaths(commands []*cli.Command) [][]string {
	paths := [][]string{nil}
	for _, c := range commands {
		if c.SkipFlagParsing {
			continue
		}
		for _, below := range commandPaths(c.Subcommands) {
			paths = append(paths, slices.Concat([]string{c.Name}, below))
		}
	}
	return paths
}
