package main

import (
	"strings"

	"tunctl/internal/cmdline"

	"github.com/urfave/cli/v2"
)

// withFlag is --with NAME=VALUE, which may be given several times.
func withFlag(usage string) cli.Flag {
	return cmdline.RepeatedFlag{StringSliceFlag: &cli.StringSliceFlag{Name: "with", Usage: usage}}
}

// withPair is a --with NAME=VALUE.
type withPair struct{ name, value string }

// pairsOf reads --with NAME=VALUE, in its order.
func pairsOf(c *cli.Context) ([]withPair, error) {
	var pairs []withPair
	for _, text := range c.StringSlice("with") {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--with takes NAME=VALUE, not %q", text)
		}
		pairs = append(pairs, withPair{name, value})
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
