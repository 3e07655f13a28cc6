package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/client"
)

func openCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "open",
		Usage:     "open a session's page in the browser",
		ArgsUsage: "[SESSION]",
		Description: "The browser is handed a link that works once, so that the page's token is in no process list.\n" +
			"--print shows the whole address, token included: whoever has it can use your notebook.\n\n" +
			"  tunctl open jupyter",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the whole address, token included, and open nothing"},
		},
		Action: func(c *cli.Context) error {
			p, err := paths(c)
			if err != nil {
				return err
			}
			name, err := sessionName(c, p)
			if err != nil {
				return err
			}
			cl := client.New(p)
			if !c.Bool("print") {
				return openPage(c.Context, t, cl, name)
			}
			url, err := cl.PageURL(c.Context, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(t.out, url)
			return err
		},
	}
}
