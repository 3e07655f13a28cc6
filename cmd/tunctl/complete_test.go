package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestNoCommandRunsWhenAShellAsksForCompletion(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	var ran []string
	for _, words := range everyCommand(t) {
		for _, rest := range [][]string{
			{}, {"--"}, {"a"}, {"a", "--"}, {"a", "b", "--"}, {"--", "a"}, {"a", "--", "b", "--"},
			{"a", "b", "c", "--"}, {"--yes", "a", "b", "--", "-x"}, {"--help"}, {"-h", "--"}, {"--", "--help"}, {"help", "--"},
		} {
			for _, ask := range []string{completionWord, completionWord + "=", completionWord + "=a", completionWord + "=-"} {
				app := newApp(strings.NewReader(""), io.Discard, io.Discard)
				eachOf(app.Commands, nil, func(c *cli.Command, name []string) {
					c.Action = func(*cli.Context) error { ran = append(ran, strings.Join(name, " ")); return nil }
				})
				app.Action = func(*cli.Context) error { ran = append(ran, "tunctl"); return nil }
				line := slices.Concat([]string{"tunctl"}, words, rest, []string{ask})
				if err := runApp(app, line); err != nil || len(ran) > 0 {
					t.Errorf("%q ran %q, %v", line, ran, err)
				}
				ran = nil
			}
		}
	}
}

// everyCommand has the words of all commands, of the hidden ones and of none.
func everyCommand(t *testing.T) [][]string {
	t.Helper()
	list := [][]string{{}}
	eachOf(newApp(strings.NewReader(""), io.Discard, io.Discard).Commands, nil, func(_ *cli.Command, words []string) { list = append(list, words) })
	if len(list) < 50 {
		t.Fatalf("only %d commands", len(list))
	}
	return list
}

func eachOf(commands []*cli.Command, above []string, do func(c *cli.Command, words []string)) {
	for _, c := range commands {
		words := append(slices.Clone(above), c.Name)
		do(c, words)
		eachOf(c.Subcommands, words, do)
	}
}
