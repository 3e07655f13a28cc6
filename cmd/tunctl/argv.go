package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// reorder moves flags before arguments, since urfave/cli v2 stops at the first
// argument and a person writes `tunctl up jupyter --no-open` as often as not. It
// reads which flags take a value from the commands' own definitions; what follows
// "--", or the host of `tunctl ssh`, stays as it is.
func reorder(app *cli.App, argv []string) ([]string, error) {
	if len(argv) == 0 {
		return argv, nil
	}
	out := []string{argv[0]}
	rest := argv[1:]
	flags, commands := app.Flags, app.Commands
	passes := false
	for {
		options, args, err := split(flags, rest, passes || len(commands) > 0)
		if err != nil {
			return nil, err
		}
		out = append(out, options...)
		if len(args) == 0 {
			return out, nil
		}
		command := find(commands, args[0])
		if command == nil {
			return append(out, args...), nil
		}
		out = append(out, args[0])
		if command.SkipFlagParsing {
			return append(out, args[1:]...), nil
		}
		flags, commands, rest = command.Flags, command.Subcommands, args[1:]
		passes = command.HasName(sshName)
	}
}

func find(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// split takes the options out of words. With stop it leaves everything from the
// first argument on: that is a command with options of its own.
func split(flags []cli.Flag, words []string, stop bool) (options, args []string, err error) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			return options, append(args, words[i:]...), nil
		case len(word) < 2 || word[0] != '-': // "-" alone is standard input
			if stop {
				return options, words[i:], nil
			}
			args = append(args, word)
			continue
		}
		options = append(options, word)
		if !takesValue(flags, word) {
			continue
		}
		if i++; i == len(words) {
			return nil, nil, usagef("%s needs a value", word)
		}
		options = append(options, words[i])
	}
	return options, args, nil
}

// takesValue reports whether the option's value is the next word.
func takesValue(flags []cli.Flag, word string) bool {
	name := strings.TrimLeft(word, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			d, ok := f.(cli.DocGenerationFlag)
			return ok && d.TakesValue()
		}
	}
	return false
}
