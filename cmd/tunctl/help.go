package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/term"
)

// frontPageCommands are the commands that `tunctl --help` shows. The list stays short:
// `tunctl help all` shows the others.
var frontPageCommands = []string{"up", "down", "status", "open", "logs", "extend", "ssh", "cp", "init", "login", "doctor", "demo"}

// allCommands is the word for every command in `tunctl help all`.
const allCommands = "all"

// helpCommand serves only `tunctl help all`: `tunctl help COMMAND` is read as `tunctl COMMAND
// --help`.
func helpCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Aliases:   []string{"h"},
		Hidden:    true,
		Usage:     "show help for a command, or list every command",
		ArgsUsage: "[COMMAND|" + allCommands + "]",
		Action: func(c *cli.Context) error {
			_, err := io.WriteString(t.Out, allCommandsPage(c.App))
			return err
		},
	}
}

// frontPage is what `tunctl` and `tunctl --help` show.
func frontPage(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nUSAGE:\n   tunctl COMMAND [options]\n\n", app.Name, app.Usage)
	fmt.Fprintf(&b, "%s\n\nCOMMANDS:\n", indentLines(app.Description))
	var list []*cli.Command
	for _, name := range frontPageCommands {
		list = append(list, findCommand(app.Commands, name))
	}
	writeCommands(&b, list)
	b.WriteString("\nOPTIONS:{{template \"visibleFlagTemplate\" .}}\n\n" +
		"`tunctl COMMAND --help` shows how to use a command.\n" +
		"`tunctl help all` lists every command in its chapters.\n")
	return b.String()
}

// allCommandsPage lists every command in its chapter.
func allCommandsPage(app *cli.App) string {
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

func indentLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "   " + line
		}
	}
	return strings.Join(lines, "\n")
}

// commandHelp is the template of COMMAND --help. Flags are in the order of their definition.
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

// helpWidth is the width of help texts, so that they fit 80 columns: the library indents them.
const helpWidth = 76

// withCommonHelp gives every command our errors for a mistyped command or flag, and help that
// fits the terminal.
func withCommonHelp(commands []*cli.Command) []*cli.Command {
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
		withCommonHelp(c.Subcommands)
	}
	return commands
}

// rank puts the flags that most people need first, and those for scripts last.
func rank(f cli.Flag) int {
	if f.Names()[0] == "json" {
		return 1
	}
	return 0
}

// reflow makes a help text of a description: it removes the tabs that indent a raw string in
// the source, where ” stands for a backquote, and wraps prose to the width of help. Indented
// lines, such as examples, and lines in columns stay as they are.
func reflow(text string) string {
	text = strings.NewReplacer("\t", "", "''", "`").Replace(text)
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !columns.MatchString(p) {
			paragraphs[i] = strings.Join(term.Wrap(strings.ReplaceAll(p, "\n", " "), helpWidth, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
