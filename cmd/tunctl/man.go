package main

import (
	"errors"
	"os"
	"path/filepath"

	"tunctl/internal/cmdline"

	"github.com/urfave/cli/v2"
)

// manCommand writes the man pages, for packages and `make install`. They have the same
// text as `tunctl COMMAND --help`.
func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Hidden:    true,
		Usage:     "write the man pages into a folder",
		ArgsUsage: "DIR",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("man takes the folder to write to")
			}
			var err error
			for name, text := range cmdline.ManPages(c.App, version()) {
				err = errors.Join(err, os.WriteFile(filepath.Join(c.Args().First(), name), []byte(text), 0o644)) //nolint:gosec // a page is for everybody
			}
			return err
		},
	}
}
