package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// helpOf is what --help shows.
func helpOf(t *testing.T, words ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := run(append(append([]string{"tunctl"}, words...), "--help"), strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatalf("the help of %q ends with %d", words, code)
	}
	return out.String()
}

// eachCommand calls do with the words of every command that is shown.
func eachCommand(commands []*cli.Command, above []string, do func(c *cli.Command, words []string)) {
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		words := append(append([]string{}, above...), c.Name)
		do(c, words)
		eachCommand(c.Subcommands, words, do)
	}
}

func TestNoLineOfHelpIsTooWide(t *testing.T) {
	const most = 90
	check := func(words ...string) {
		for line := range strings.SplitSeq(helpOf(t, words...), "\n") {
			if breadth(line) > most {
				t.Errorf("the help of %q has a line of %d columns:\n%s", words, breadth(line), line)
			}
			if strings.Count(line, "(default:") > 1 || strings.Contains(line, "(default: false)") {
				t.Errorf("the help of %q has a default too many:\n%s", words, line)
			}
		}
	}
	check()
	eachCommand(newApp(strings.NewReader(""), io.Discard, io.Discard).Commands, nil, func(_ *cli.Command, words []string) { check(words...) })
}

func TestHelpAfterAnArgumentIsTheCommandsHelp(t *testing.T) {
	eachCommand(newApp(strings.NewReader(""), io.Discard, io.Discard).Commands, nil, func(c *cli.Command, words []string) {
		if len(c.Subcommands) > 0 || c.HasName(sshName) {
			return
		}
		if got, want := helpOf(t, append(append([]string{}, words...), "jupyter")...), helpOf(t, words...); got != want {
			t.Errorf("the help of %q after an argument is\n%s", words, got)
		}
	})
}

func TestEveryCommandWithArgumentsShowsAnExample(t *testing.T) {
	for _, c := range newApp(strings.NewReader(""), io.Discard, io.Discard).Commands {
		example := func(line string) bool { return columns.MatchString(line) && strings.Contains(line, "tunctl "+c.Name) }
		if c.ArgsUsage != "" && !c.Hidden && !slices.ContainsFunc(strings.Split(c.Description, "\n"), example) {
			t.Errorf("tunctl %s --help has no example", c.Name)
		}
	}
}

func TestReflowKeepsWhatIsIndented(t *testing.T) {
	prose := strings.TrimSpace(strings.Repeat("some words ", 12))
	got := reflow(prose + "\nand on\n\nbash:  source it\nzsh:   source it\n\n  tunctl up      as it is\n\nend")
	if want := "\n\nbash:  source it\nzsh:   source it\n\n  tunctl up      as it is\n\nend"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if breadth(line) > helpWidth {
			t.Errorf("%d columns: %s", breadth(line), line)
		}
	}
}
