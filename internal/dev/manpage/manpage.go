// Package manpage writes the man pages of commands. They have the same text as `tunctl COMMAND --help`. The
// pages are files in packaging/man: the tests of cmd/tunctl compare them with the commands.
package manpage

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/cmdline"
)

// All are the pages by file name: one for the program and one for each command, made
// from the definitions that also parse the command line.
func All(app *cli.App) map[string]string {
	pages := map[string]string{"tunctl.1": mainPage(app)}
	for _, c := range app.VisibleCommands() {
		pages["tunctl-"+c.Name+".1"] = commandPage(c)
	}
	return pages
}

// manFiles and manExits are the sections that the commands' definitions do not have.
const (
	manFiles = `.SH FILES
.TP
.I ~/.config/tunctl/config.toml
the config file: your hosts and sessions; see \fBtunctl config edit\fR and tunctl\-config(5)
.TP
.I ~/.local/state/tunctl/
the agent's state and log, and the history of jobs
.SH ENVIRONMENT
.TP
.B TUNCTL_CONFIG
the config file, like \-\-config
.TP
.B TUNCTL_HOME
the folder for config, state and socket, instead of the default ones
.TP
.B TUNCTL_SSH_CONFIG
read instead of ~/.ssh/config
.TP
.B TUNCTL_DEBUG
if set, the agent writes a more detailed log
`
	manExits = `.SH EXIT STATUS
0 done; 1 failed; 2 wrong usage or invalid config; 3 interactive login or a decision needed; 4 timed out
waiting; 5 cannot reach the agent; 130 interrupted.
`
)

func mainPage(app *cli.App) string {
	p := newManPage("tunctl", app.Usage)
	p.macro(".SH SYNOPSIS\n.B tunctl\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]")
	p.description(app.Description)
	p.macro(".SH COMMANDS")
	others := []string{"ssh(1)", `tunctl\-config(5)`, `tunctl\-sites(5)`}
	chapter := ""
	for _, c := range app.VisibleCommands() {
		if c.Category != chapter {
			chapter = c.Category
			p.macro(".SS " + escapeRoff(chapter))
		}
		page := "tunctl-" + c.Name + "(1)"
		p.item(page, c.Usage)
		others = append(others, escapeRoff(page))
	}
	p.flags(app.Flags)
	p.WriteString(manFiles + manExits)
	p.macro(".SH SEE ALSO\n" + strings.Join(others, ",\n"))
	return p.String()
}

func commandPage(c *cli.Command) string {
	p := newManPage("tunctl-"+c.Name, c.Usage)
	p.macro(".SH SYNOPSIS")
	forms := c.Subcommands
	if len(forms) == 0 {
		forms = []*cli.Command{c}
	}
	for _, one := range forms {
		words := "tunctl " + c.Name
		if one != c {
			words += " " + one.Name
		}
		p.macro(".B " + escapeRoff(words))
		if len(cmdline.VisibleFlags(one.Flags)) > 0 {
			p.text("[OPTIONS]")
		}
		if one.ArgsUsage != "" {
			p.text(one.ArgsUsage)
		}
		p.macro(".br")
	}
	p.description(c.Description)
	p.flags(c.Flags)
	for _, sub := range c.Subcommands {
		p.macro(".SS " + escapeRoff(c.Name+" "+sub.Name))
		p.text(sub.Usage)
		p.prose(sub.Description)
		p.options(sub.Flags)
	}
	p.WriteString(manExits)
	p.macro(".SH SEE ALSO\ntunctl(1)")
	return p.String()
}

// manPage is a page while it is written; see man(7) and groff_man(7).
type manPage struct{ strings.Builder }

func newManPage(name, usage string) *manPage {
	p := &manPage{}
	p.macro(`.\" Made from the commands: TUNCTL_UPDATE_MAN=1 go test ./cmd/tunctl -run ManPages`)
	p.macro(fmt.Sprintf(".TH %s 1 \"\" \"tunctl\" \"User Commands\"", strings.ToUpper(escapeRoff(name))))
	p.macro(".SH NAME")
	p.macro(escapeRoff(name) + ` \- ` + boldCode(usage))
	return p
}

func (p *manPage) macro(line string) { p.WriteString(line + "\n") }

// text writes a line of words, escaped if it would be read as a macro.
func (p *manPage) text(line string) {
	if line = boldCode(line); strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	p.macro(line)
}

func (p *manPage) description(text string) {
	if text != "" {
		p.macro(".SH DESCRIPTION")
		p.prose(text)
	}
}

// prose writes paragraphs. Indented lines, and lines in columns, stay as they are.
func (p *manPage) prose(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		if paragraph == "" {
			continue
		}
		begin, end := ".PP\n", ""
		if cmdline.Columns.MatchString(paragraph) {
			begin, end = ".PP\n.nf\n", ".fi\n"
		}
		p.WriteString(begin)
		for line := range strings.SplitSeq(paragraph, "\n") {
			p.text(line)
		}
		p.WriteString(end)
	}
}

func (p *manPage) item(term, words string) {
	p.macro(".TP\n.B " + escapeRoff(term))
	p.text(words)
}

func (p *manPage) flags(flags []cli.Flag) {
	if len(cmdline.VisibleFlags(flags)) > 0 {
		p.macro(".SH OPTIONS")
		p.options(flags)
	}
}

func (p *manPage) options(flags []cli.Flag) {
	for _, f := range cmdline.VisibleFlags(flags) {
		placeholder, usage := cmdline.SplitUsage(f)
		names := make([]string, 0, 2)
		for _, name := range f.Names() {
			names = append(names, strings.TrimSpace(cmdline.Dashed(name)+" "+placeholder))
		}
		if env := f.GetEnvVars(); len(env) > 0 {
			usage += " (also: $" + strings.Join(env, ", $") + ")"
		}
		p.item(strings.Join(names, ", "), usage)
	}
}

// boldCode writes words, with those in backquotes in bold.
func boldCode(text string) string {
	parts := strings.Split(escapeRoff(text), "`")
	if len(parts)%2 == 0 {
		return escapeRoff(text) // a backquote without its pair
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = `\fB` + parts[i] + `\fR`
	}
	return strings.Join(parts, "")
}

// escapeRoff escapes text for troff: a plain - would become a hyphen, which cannot be copied into
// a shell.
func escapeRoff(text string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
}
