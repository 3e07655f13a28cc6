// Package cmdline is what tunctl's command line has beyond urfave/cli: flags after arguments, errors
// that suggest what was probably meant, help that fits 80 columns, and completion for shells.
// All of it is made from the commands' definitions; it runs no command and knows no config.
package cmdline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// The commands that are read in their own way.
const (
	SSHCommand     = "ssh"     // the words after its first argument are another program's
	VersionCommand = "version" // --version runs it
)

// Reorder moves flags before arguments, since urfave/cli v2 stops at the first argument, and
// people write `tunctl up jupyter --no-open` as often as not. The commands' definitions say
// which flags take a value. The words after "--", or after the host of `tunctl ssh`, stay as
// they are.
func Reorder(app *cli.App, argv []string) ([]string, error) {
	if len(argv) == 0 {
		return argv, nil
	}
	words, err := rootLevel(app).reorder(argv[1:])
	return append(argv[:1:1], words...), err
}

// reorder moves flags before arguments in the words of a level and of those below it.
func (l level) reorder(words []string) ([]string, error) {
	options, args, err := l.split(words)
	if err != nil {
		return nil, err
	}
	if l.isRoot() && slices.ContainsFunc(options, isVersionFlag) {
		return []string{VersionCommand}, nil
	}
	if len(args) == 0 || len(l.Subcommands) == 0 && slices.ContainsFunc(options, isHelpFlag) {
		return options, nil // the library takes an argument beside --help for a command
	}
	ofAll := l.isRoot() && len(args) > 1 && args[1] == allCommands
	if len(l.Subcommands) > 0 && slices.Contains(helpWords, args[0]) && !ofAll { // also for an unknown command
		words, err = l.reorder(append(slices.Clone(args[1:]), "--help"))
		return append(options, words...), err
	}
	command := FindCommand(l.Subcommands, args[0])
	if command == nil || command.SkipFlagParsing {
		return append(options, args...), nil
	}
	words, err = l.below(command).reorder(args[1:])
	return append(append(options, args[0]), words...), err
}

func isVersionFlag(option string) bool {
	return slices.Contains([]string{"version", "v"}, strings.TrimLeft(option, "-"))
}

// level is a command and the words that may follow it.
type level struct {
	*cli.Command
	app  *cli.App
	name string // as it is typed, without the program
}

func rootLevel(app *cli.App) level {
	return level{&cli.Command{Name: app.Name, Flags: app.Flags, Subcommands: app.Commands}, app, app.Name}
}

func (l level) below(c *cli.Command) level {
	return level{c, l.app, strings.TrimPrefix(l.name+" "+c.Name, l.app.Name+" ")}
}

// passes reports whether the words after its first argument are another program's.
func (l level) passes() bool { return l.HasName(SSHCommand) }

// isRoot reports whether no command was typed yet.
func (l level) isRoot() bool { return l.name == l.app.Name }

// FindCommand returns the command of that name or alias; nil: there is none.
func FindCommand(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// split separates the options from the other words. Where commands may follow, it stops at
// the first of them, which has options of its own.
func (l level) split(words []string) (options, args []string, err error) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			return options, append(args, words[i:]...), nil
		case len(word) < 2 || word[0] != '-' || unicode.IsDigit(rune(word[1])): // "-" alone is standard input, -1h a time
			if l.passes() || len(l.Subcommands) > 0 {
				return options, words[i:], nil
			}
			args = append(args, word)
			continue
		}
		n, err := l.option(words[i:])
		if err != nil {
			return nil, nil, err
		}
		options = append(options, words[i:i+n]...)
		i += n - 1
	}
	return options, args, nil
}

// option checks the option that words begin with, and returns its number of words.
func (l level) option(words []string) (int, error) {
	typed, value, given := strings.Cut(words[0], "=")
	f := findFlag(l.Flags, typed)
	switch {
	case isHelpFlag(typed):
		return 1, nil
	case f == nil:
		return 0, unknownFlag(l.app, l.name, l.ArgsUsage, l.Flags, typed)
	case given:
		return 1, checkValue(f, typed, value)
	case !TakesValue(l.Flags, typed):
		return 1, nil
	case len(words) < 2:
		return 0, api.Errorf(api.CodeUsage, "%s needs a value", typed)
	}
	return 2, checkValue(f, typed, words[1])
}

var helpWords = []string{"help", "h"}

func isHelpFlag(option string) bool {
	return strings.HasPrefix(option, "-") && slices.Contains(helpWords, strings.TrimLeft(option, "-"))
}

// TakesValue reports whether the option's value is the next word.
func TakesValue(flags []cli.Flag, word string) bool {
	d, ok := findFlag(flags, word).(cli.DocGenerationFlag)
	return ok && d.TakesValue() && !strings.Contains(word, "=")
}

// noCommand is the action of a command with subcommands that was given none of them: it lists
// them, or suggests the one that was probably meant.
func noCommand(c *cli.Context) error {
	typed := c.Args().First()
	root := c.Command.Name == c.App.Name
	switch {
	case typed != "":
		return UnknownCommand(c.Command, root, typed)
	case root:
		return cli.ShowAppHelp(c)
	}
	return cli.ShowSubcommandHelp(c)
}

// UnknownCommand is the error for a word that is no command of parent, or of the program.
func UnknownCommand(parent *cli.Command, root bool, typed string) error {
	e := api.Errorf(api.CodeUsage, "no command %q", typed).WithHint("`tunctl help all` lists every command")
	if !root {
		e.Message = fmt.Sprintf("%s has no command %q", parent.Name, typed)
		e.Hint = fmt.Sprintf("`%s --help` lists its commands", parent.HelpName)
	}
	var names []string
	for _, c := range parent.VisibleCommands() {
		names = append(names, c.Names()...)
	}
	if meant := otherWords[typed]; root && meant != "" {
		e.Message += fmt.Sprintf("; did you mean %s?", meant)
		return e
	}
	e.Message += suggest.DidYouMean(typed, names)
	return e
}

// otherWords are the commands of other programs, and tunctl's for the same.
var otherWords = map[string]string{
	"start": "up", "run": "up", "stop": "down", "list": "status", "ls": "status", "kill": "cancel", "shell": "ssh",
	"ps": "status", "squeue": "jobs", "qstat": "jobs", "sbatch": "submit", "qsub": "submit", "scancel": "cancel", "qdel": "cancel",
	"rsync": "cp", "scp": "cp", "sftp": "cp", "jupyter": "up jupyter", "notebook": "up",
}

// unknownFlag is the error for an option that the command does not have.
func unknownFlag(app *cli.App, name, usage string, flags []cli.Flag, typed string) error {
	e := api.Errorf(api.CodeUsage, "%s has no flag %s", name, typed).
		WithHint("`tunctl %s --help` lists the flags", name)
	if strings.Contains(usage, "-- ") {
		e.Hint = fmt.Sprintf("what is not for tunctl itself comes after --: `tunctl %s %s`", name, usage)
	}
	bare := strings.TrimLeft(typed, "-")
	switch {
	case name != app.Name && findFlag(app.Flags, typed) != nil:
		e.Hint = fmt.Sprintf("%s goes before the command: `tunctl %s … %s`", typed, typed, name)
		return e
	case name == app.Name:
		e.Hint = "`tunctl --help` lists the flags"
		if FindCommand(app.Commands, bare) != nil {
			e.Hint = fmt.Sprintf("%s is a command: `tunctl %s`", bare, bare)
			return e
		}
	}
	names := []string{"--help"}
	for _, f := range VisibleFlags(flags) {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, "--"+n)
			}
		}
	}
	e.Message += suggest.DidYouMean("--"+bare, names)
	return e
}

// checkValue checks a flag's value: the library's errors show neither the flag as it was
// typed nor the values that it takes.
func checkValue(f cli.Flag, typed, value string) error {
	switch f.(type) {
	case *cli.DurationFlag:
		if _, err := time.ParseDuration(value); err != nil {
			return api.Errorf(api.CodeUsage, "%s takes a time such as 30m or 2h, not %q", typed, value)
		}
	case *cli.BoolFlag:
		if _, err := strconv.ParseBool(value); err != nil {
			return api.Errorf(api.CodeUsage, "%s takes no value; got %q", typed, value)
		}
	}
	return nil
}

// findFlag finds the flag that an option names.
func findFlag(flags []cli.Flag, option string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(option, "-"), "=")
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return flags[i]
}

// RepeatedFlag is a flag that may be given several times. Its help shows it once: twice, as
// the library does it, makes the column too wide for the others.
type RepeatedFlag struct{ *cli.StringSliceFlag }

// String is the flag's line of the help.
func (f RepeatedFlag) String() string {
	names, usage, _ := strings.Cut(f.StringSliceFlag.String(), "\t")
	names, _, _ = strings.Cut(names, " [ ")
	return names + "\t" + usage
}
