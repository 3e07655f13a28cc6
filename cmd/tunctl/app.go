package main

import (
	"context"
	"embed"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/cmdline"
	"tunctl/internal/term"
)

// helpTexts describe the commands, a file each.
//
//go:embed help
var helpTexts embed.FS

// newApp is the command line. Every command is a file of its own.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	t := term.New(stdin, stdout, stderr)
	app := &cli.App{
		Name:  "tunctl",
		Usage: "a notebook on a supercomputer, one command away",
		Description: `Logs in to the cluster, submits or finds your job, waits for it, forwards its port and opens its page.
			Reconnects automatically when the laptop wakes up or the network changes.

			` + firstSteps,
		HideHelpCommand: true, // helpCommand replaces it
		Reader:          stdin,
		Writer:          t.Out,
		ErrWriter:       t.Err,
		ExitErrHandler:  func(c *cli.Context, err error) { printErrorJSON(t, c, err) }, // runProgram prints the text, once
		Before:          freeMainThread,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read this config `FILE`", EnvVars: []string{"TUNCTL_CONFIG"}},
			&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version", DisableDefaultText: true},
			cli.HelpFlag, // the library adds it only with its own help command
		},
		Commands: commands(t),

		DisableSliceFlagSeparator: true, // --with modules="a,b" is one value
	}
	cmdline.AddHelp(app, frontPageCommands)
	return app
}

// runApp runs a command, or completes its line for a shell.
func runApp(ctx context.Context, app *cli.App, args []string) error {
	if at, ok := cmdline.ParsePartial(app, args); ok {
		return completeLine(app.Writer, at)
	}
	args, err := cmdline.Reorder(app, args)
	if err != nil {
		return err
	}
	return app.RunContext(ctx, args)
}

// freeMainThread unlocks the main thread. The tray's library locks the main goroutine to it
// at the start, since macOS draws there; for all other commands that would make every switch
// between goroutines slow.
func freeMainThread(c *cli.Context) error {
	if c.Args().First() != "tray" {
		runtime.UnlockOSThread()
	}
	return nil
}

// commands are all commands, in the chapters of `tunctl help all` and the man page: what a
// user needs first comes first.
func commands(t *term.Terminal) []*cli.Command {
	return slices.Concat(
		chapter("Every day",
			upCommand(t), downCommand(t), statusCommand(t), openCommand(t), logsCommand(t), outputCommand(t), extendCommand(t), dashboardCommand(t), trayCommand(t)),
		chapter("Jobs and hosts",
			attachCommand(t), jobsCommand(t), freeCommand(t), runCommand(t), submitCommand(t), cancelCommand(t), historyCommand(t), quotaCommand(t),
			loginCommand(t), logoutCommand(t), keyCommand(t), hostsCommand(t)),
		chapter("One login for everything",
			sshCommand(t), codeCommand(t), cpCommand(t), sshConfigCommand(t), forwardCommand(t), connectCommand(t)),
		chapter("Setting up",
			demoCommand(t), initCommand(t), sitesCommand(t), scriptCommand(t), configCommand(t), autostartCommand(t), mcpCommand(t), completionCommand(t)),
		chapter("Troubleshooting",
			doctorCommand(t), detectCommand(t), agentCommand(t), versionCommand(t)),
		[]*cli.Command{practicePageCommand(t), keyringCommand(t), cmdline.HelpCommand(t.Out)}, // hidden
	)
}

func chapter(name string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		text, _ := helpTexts.ReadFile("help/" + c.Name + ".txt") // a command has none if its usage says all
		c.Category, c.Description = name, strings.TrimSpace(string(text))
	}
	return commands
}

// frontPageCommands are the commands that `tunctl --help` shows. The list stays short:
// `tunctl help all` shows the others.
var frontPageCommands = []string{"up", "down", "status", "open", "logs", "output", "extend", "jobs", "ssh", "cp", "forward", "init", "login", "doctor", "demo"}
