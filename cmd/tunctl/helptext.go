package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is how wide help is, so that it can be read on 80 columns: the library
// indents it.
const helpWidth = 76

// tidy gives every command what all have alike: our words for a mistyped command or
// flag, and help that fits.
func tidy(commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.OnUsageError = usageError
		c.Description = reflow(c.Description)
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = noCommand
		}
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // nobody asks whether a switch is on by itself
			}
		}
		tidy(c.Subcommands)
	}
	return commands
}

// reflow breaks prose anew where help ends. Lines that are indented, such as examples,
// and lines in columns stay as they are.
func reflow(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !columns.MatchString(p) {
			paragraphs[i] = strings.Join(wrap(strings.ReplaceAll(p, "\n", " "), helpWidth, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// waitFlag is --wait of the commands that wait for a session.
func waitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "wait", Usage: "give up after `TIME`, such as 2h", DefaultText: "never on a terminal, else 30m"}
}
