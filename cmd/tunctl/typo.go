package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// noCommand is the action of a command that has others below it and was not given one of
// them: it lists them, or names the one that was probably meant.
func noCommand(c *cli.Context) error {
	typed := c.Args().First()
	root := c.Command.Name == c.App.Name
	switch {
	case typed != "":
		return unknownCommand(c.Command, root, typed)
	case root:
		return cli.ShowAppHelp(c)
	}
	return cli.ShowSubcommandHelp(c)
}

func unknownCommand(parent *cli.Command, root bool, typed string) error {
	e := &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("no command %q", typed), Hint: "`tunctl help all` lists every command"}
	if !root {
		e.Message = fmt.Sprintf("%s has no command %q", parent.Name, typed)
		e.Hint = fmt.Sprintf("`%s --help` lists its commands", parent.HelpName)
	}
	var names []string
	for _, c := range parent.Subcommands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	e.Message += didYouMean(typed, names)
	return e
}

// unknownFlag is the error of an option that the command name has not.
func unknownFlag(app *cli.App, name string, flags []cli.Flag, typed string) error {
	e := &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%s has no flag %s", name, typed), Hint: fmt.Sprintf("`tunctl %s --help` lists the flags", name)}
	bare := strings.TrimLeft(typed, "-")
	switch {
	case name != app.Name && lookUp(app.Flags, typed) != nil:
		e.Hint = fmt.Sprintf("%s goes before the command: `tunctl %s … %s`", typed, typed, name)
		return e
	case name == app.Name:
		e.Hint = "`tunctl --help` lists the flags"
		if find(app.Commands, bare) != nil {
			e.Hint = fmt.Sprintf("%s is a command: `tunctl %s`", bare, bare)
			return e
		}
	}
	names := []string{"--help"}
	for _, f := range visible(flags) {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, "--"+n)
			}
		}
	}
	e.Message += didYouMean("--"+bare, names)
	return e
}

// didYouMean ends a message about a word with the nearest of those that exist, if
// any is near.
func didYouMean(typed string, among []string) string {
	near := suggest.Nearest(typed, among)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + near[0] + "?"
}

// checkValue checks a flag's value: the library's errors name neither the flag as it was
// typed nor what it takes.
func checkValue(f cli.Flag, typed, value string) error {
	switch f.(type) {
	case *cli.DurationFlag:
		if _, err := time.ParseDuration(value); err != nil {
			return usagef("%s takes a time such as 30m or 2h, not %q", typed, value)
		}
	case *cli.BoolFlag:
		if _, err := strconv.ParseBool(value); err != nil {
			return usagef("%s takes no value; got %q", typed, value)
		}
	}
	return nil
}

// lookUp finds the flag that an option names.
func lookUp(flags []cli.Flag, option string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(option, "-"), "=")
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return flags[i]
}
