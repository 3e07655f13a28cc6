package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/term"
)

// frontDoor are the commands that `tunctl --help` shows. It stays this short: whoever
// needs more finds it with `tunctl help all`.
var frontDoor = []string{"up", "down", "status", "open", "logs", "extend", "ssh", "cp", "init", "login", "doctor", "demo"}

// allCommands is the word for every command in `tunctl help all`.
const allCommands = "all"

// helpCommand is reached by `tunctl help all` only: `tunctl help COMMAND` is read as
// `tunctl COMMAND --help`.
func helpCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Aliases:   []string{"h"},
		Hidden:    true,
		Usage:     "show help for a command, or list every command",
		ArgsUsage: "[COMMAND|" + allCommands + "]",
		Action: func(c *cli.Context) error {
			_, err := io.WriteString(t.Out, chapterPage(c.App))
			return err
		},
	}
}

// frontPage is what `tunctl` and `tunctl --help` show.
func frontPage(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nUSAGE:\n   tunctl COMMAND [options]\n\n", app.Name, app.Usage)
	fmt.Fprintf(&b, "%s\n\nCOMMANDS:\n", indent(app.Description))
	var list []*cli.Command
	for _, name := range frontDoor {
		list = append(list, find(app.Commands, name))
	}
	writeCommands(&b, list)
	b.WriteString("\nOPTIONS:{{template \"visibleFlagTemplate\" .}}\n\n" +
		"`tunctl COMMAND --help` shows how to use a command.\n" +
		"`tunctl help all` lists every command in its chapters.\n")
	return b.String()
}

// chapterPage lists every command in its chapter.
func chapterPage(app *cli.App) string {
	var b strings.Builder
	list := slices.DeleteFunc(slices.Clone(app.Commands), func(c *cli.Command) bool { return c.Hidden })
	for len(list) > 0 {
		chapter := list[0].Category
		n := slices.IndexFunc(list, func(c *cli.Command) bool { return c.Category != chapter })
		if n < 0 {
			n = len(list)
		}
		fmt.Fprintf(&b, "%s:\n", chapter)
		writeCommands(&b, list[:n])
		b.WriteByte('\n')
		list = list[n:]
	}
	b.WriteString("`tunctl COMMAND --help` shows how to use a command.\n")
	return b.String()
}

func writeCommands(b *strings.Builder, list []*cli.Command) {
	width := 0
	for _, c := range list {
		width = max(width, len(c.Name))
	}
	for _, c := range list {
		fmt.Fprintf(b, "   %-*s  %s\n", width, c.Name, c.Usage)
	}
}

func indent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "   " + line
		}
	}
	return strings.Join(lines, "\n")
}

// commandHelp is what COMMAND --help shows. Flags stand in the order of their
// definition.
const commandHelp = `{{.HelpName}} - {{.Usage}}

USAGE:
   {{.HelpName}}{{if .VisibleCommands}} COMMAND{{end}} [options]{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}
{{if .Description}}
DESCRIPTION:
   {{wrap .Description 3}}
{{end}}{{if .VisibleCommands}}
COMMANDS:{{template "visibleCommandTemplate" .}}
{{end}}
OPTIONS:{{template "visibleFlagTemplate" .}}
`
