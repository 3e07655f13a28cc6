package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// withFlag is --with NAME=VALUE, which may be given several times.
func withFlag(usage string) cli.Flag {
	return repeatedFlag{&cli.StringSliceFlag{Name: "with", Usage: usage}}
}

// repeatedFlag is a flag that may be given several times. Its help shows it once: twice, as
// the library does it, makes the column too wide for the others.
type repeatedFlag struct{ *cli.StringSliceFlag }

// String is the flag's line of the help.
func (f repeatedFlag) String() string {
	names, usage, _ := strings.Cut(f.StringSliceFlag.String(), "\t")
	names, _, _ = strings.Cut(names, " [ ")
	return names + "\t" + usage
}

// answer is a --with NAME=VALUE.
type answer struct{ name, value string }

// pairsOf reads --with NAME=VALUE, in its order.
func pairsOf(c *cli.Context) ([]answer, error) {
	var pairs []answer
	for _, text := range c.StringSlice("with") {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--with takes NAME=VALUE, not %q", text)
		}
		pairs = append(pairs, answer{name, value})
	}
	return pairs, nil
}

// answersOf is --with NAME=VALUE by the names; the last of several for one name counts.
func answersOf(c *cli.Context) (map[string]string, error) {
	pairs, err := pairsOf(c)
	if err != nil {
		return nil, err
	}
	answers := map[string]string{}
	for _, p := range pairs {
		answers[p.name] = p.value
	}
	return answers, nil
}
