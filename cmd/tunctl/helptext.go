package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/term"
)

// helpWidth is how wide help is, so that it can be read on 80 columns: the library
// indents it.
const helpWidth = 76

// tidy gives every command what all have in common: our words for a mistyped command or
// flag, and help that fits.
func tidy(commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.OnUsageError = usageError
		c.Description = reflow(c.Description)
		c.CustomHelpTemplate = commandHelp
		c.HideHelpCommand = true // a session or a host may be called h; reorder reads `help`
		slices.SortStableFunc(c.Flags, func(a, b cli.Flag) int { return cmp.Compare(rank(a), rank(b)) })
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = noCommand
		}
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // a switch is off unless it is given
			}
		}
		tidy(c.Subcommands)
	}
	return commands
}

// rank has help show the flags that most people need first: those of scripts come last.
func rank(f cli.Flag) int {
	if f.Names()[0] == "json" {
		return 1
	}
	return 0
}

// reflow breaks prose where help ends. Lines that are indented, such as examples,
// and lines in columns stay as they are.
func reflow(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !columns.MatchString(p) {
			paragraphs[i] = strings.Join(term.Wrap(strings.ReplaceAll(p, "\n", " "), helpWidth, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// waitFlag is --wait of the commands that wait for a session.
func waitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "wait", Usage: "give up after `TIME`, such as 2h", DefaultText: "no limit on a terminal, else 30m"}
}
