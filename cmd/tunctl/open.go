package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func openCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "open",
		Usage:     "open a session's page in the browser",
		ArgsUsage: "[SESSION]",
		Description: "Without SESSION: the session that is up. The browser gets a link that works once, so that the\n" +
			"page's token is in no process list. --print shows the full address, token included: anyone who\n" +
			"has it can use your notebook.\n\n" +
			"  tunctl open\n" +
			"  tunctl open jupyter --print",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the full address, token included, instead of opening it"},
		},
		Action: func(c *cli.Context) error {
			p, err := paths(c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c.Context)
			defer stop()
			name, err := chooseSession(ctx, c, t, p, choice{[]func(api.Session) bool{hasPage, mayHavePage}, "no session has a page to open"})
			if err != nil {
				return err
			}
			cl := client.New(p)
			if !c.Bool("print") {
				opened, err := openPage(ctx, t, cl, name, "tunctl")
				if opened != "" {
					t.Say("%s opened %s: %s", t.Paint(term.Green, "✓"), name, opened)
				}
				return err
			}
			url, err := cl.PageURL(ctx, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(t.Out, url)
			return err
		},
	}
}
