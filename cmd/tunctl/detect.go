package main

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"tunctl/internal/agent/settings"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/jobwatch/detect"
)

func detectCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "detect",
		Usage:     "find the server address in a job log",
		ArgsUsage: "FILE|-",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "secrets", Usage: "show tokens instead of •••"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invoke(t, takes(1, 1, "detect takes one file, or - for standard input", detectLog)),
	}
}

func detectLog(_ context.Context, inv *invocation) error {
	apps, err := customApps(inv.paths)
	if err != nil {
		return err
	}
	log := inv.In
	if name := inv.Args().First(); name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return api.Errorf(api.CodeFailed, "%w", err).WithHint("`tunctl logs HOST JOB --secrets | tunctl detect -` reads the log of a job")
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	d := detect.New("", apps...)
	if _, err := io.Copy(d, log); err != nil {
		return err
	}
	d.Flush()
	found := d.Finding()
	if inv.Bool("json") {
		if err := inv.PrintIndentedJSON(found.Report(inv.Bool("secrets"))); err != nil {
			return err
		}
	} else {
		found.Explain(inv.Out, inv.Bool("secrets"))
	}
	if !found.Found {
		return exitError(exitFailed)
	}
	return nil
}

// customApps are the user's own apps, if there is a config.
func customApps(p home.Paths) ([]detect.App, error) {
	cfg, err := existingConfig(p)
	if err != nil {
		return nil, err
	}
	return settings.Apps(cfg), nil
}
