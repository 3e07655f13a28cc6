package main

import (
	"github.com/urfave/cli/v2"

	"tunctl/internal/lab"
	"tunctl/internal/term"
)

// practicePage is the hidden command that the practice cluster's job serves with.
const practicePage = "practice-page"

func practicePageCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:            practicePage,
		Usage:           "serve the practice cluster's page",
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			return lab.ServePage(c.Context, c.Args().Slice(), t.Out)
		},
	}
}
