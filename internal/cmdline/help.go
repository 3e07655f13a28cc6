package cmdline

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// allCommands is the word for every command in `tunctl help all`.
const allCommands = "all"

// HelpCommand serves only `tunctl help all`: `tunctl help COMMAND` is read as `tunctl COMMAND
// --help`.
func HelpCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Aliases:   []string{"h"},
		Hidden:    true,
		Usage:     "show help for a command, or list every command",
		ArgsUsage: "[COMMAND|" + allCommands + "]",
		Action: func(c *cli.Context) error {
			_, err := io.WriteString(out, allCommandsPage(c.App))
			return err
		},
	}
}

// AddHelp gives the program and every command help that fits the terminal, and errors that suggest
// what was probably meant. The front page shows the commands of these names.
func AddHelp(app *cli.App, front []string) {
	app.Description = reflow(app.Description)
	app.OnUsageError = usageError
	app.Action = noCommand
	withCommonHelp(app.Commands)
	app.CustomAppHelpTemplate = frontPage(app, front)
}

// frontPage is what `tunctl` and `tunctl --help` show. It fits a terminal of 24 lines: of the description it has the
// last paragraph only.
func frontPage(app *cli.App, front []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\n%s\n\nCOMMANDS:\n", app.Name, app.Usage, app.Description[strings.LastIndex(app.Description, "\n")+1:])
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, name := range front {
		fmt.Fprintf(w, "   %s\t%s\n", name, FindCommand(app.Commands, name).Usage)
	}
	_ = w.Flush() // a Builder takes everything
	b.WriteString("\nOPTIONS: --config FILE; --version, -v; --help, -h (also after a COMMAND)\n" +
		"`tunctl help all` lists every command in its chapters.\n")
	return b.String()
}

// allCommandsPage lists every command in its chapter.
func allCommandsPage(app *cli.App) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) // a line without a tab ends the columns of a chapter
	chapter := ""
	for _, c := range app.VisibleCommands() {
		if c.Category != chapter {
			if chapter != "" {
				fmt.Fprintln(w)
			}
			chapter = c.Category
			fmt.Fprintf(w, "%s:\n", chapter)
		}
		fmt.Fprintf(w, "   %s\t%s\n", c.Name, c.Usage)
	}
	fmt.Fprintln(w, "\n`tunctl COMMAND --help` shows how to use a command.")
	_ = w.Flush() // a Builder takes everything
	return b.String()
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
func withCommonHelp(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = usageError
		c.Description = reflow(c.Description)
		c.CustomHelpTemplate = commandHelp
		c.HideHelpCommand = true // a session or a host may be called h; reorder reads `help`
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
}

// reflow makes a help text of a description: it removes the tabs that indent a raw string in
// the source, where two single quotes stand for a backquote, and wraps prose to the width of
// help. Indented lines, such as examples, and lines in columns stay as they are.
func reflow(text string) string {
	text = strings.NewReplacer("\t", "", "''", "`").Replace(text)
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !Columns.MatchString(p) {
			paragraphs[i] = strings.Join(term.Wrap(strings.ReplaceAll(p, "\n", " "), helpWidth, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "tunctl"
	if c.Command != nil && c.Command.Name != "" {
		name = c.Command.HelpName
	}
	return api.Errorf(api.CodeUsage, "%w", err).WithHint("`%s --help` lists the flags", name)
}

// Columns matches text that is laid out by spaces.
var Columns = regexp.MustCompile(`(?m)\S {2,}\S|^ {2}`)

// VisibleFlags are the flags that help shows, without the --help that every command has.
func VisibleFlags(flags []cli.Flag) []cli.DocGenerationFlag {
	var list []cli.DocGenerationFlag
	for _, f := range flags {
		v, ok := f.(cli.VisibleFlag)
		if d, documented := f.(cli.DocGenerationFlag); documented && ok && v.IsVisible() && f.Names()[0] != "help" {
			list = append(list, d)
		}
	}
	return list
}

// SplitUsage separates the placeholder of a flag's value, which is in backquotes, from the
// usage.
func SplitUsage(f cli.DocGenerationFlag) (placeholder, usage string) {
	usage = f.GetUsage()
	if !f.TakesValue() {
		return "", usage
	}
	before, rest, found := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return "VALUE", usage
	}
	return cmp.Or(name, "VALUE"), before + name + after
}
