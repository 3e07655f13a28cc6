// Command tunctl takes a person from a laptop to a notebook on a supercomputer's
// compute node, and keeps them there. It is the CLI, the background agent
// (`tunctl agent run`) and the icon on the desktop (`tunctl tray`) in one program.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/tunnel/openssh"
)

func main() {
	if socket := os.Getenv(openssh.AskpassSocket); socket != "" {
		os.Exit(askpass(socket, os.Args[1:], os.Stdout, os.Stderr))
	}
	if t := term.New(os.Stdin, os.Stdout, os.Stderr); startedAsApp(t, os.Args) {
		os.Exit(runAsApp(t))
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// askpass is this program as the SSH_ASKPASS of an ssh that logs in for the agent: it passes
// the question on, and prints the answer.
func askpass(socket string, args []string, stdout, stderr io.Writer) int {
	answer, err := openssh.Askpass(context.Background(), socket, strings.Join(args, " "))
	if err != nil {
		fmt.Fprintf(stderr, "tunctl: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(stdout, answer)
	return 0
}

// run is the whole program without its process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := runApp(newApp(stdin, stdout, stderr), args)
	if err != nil {
		printError(term.New(stdin, stdout, stderr), err)
	}
	return exitCode(err)
}

// runApp runs a command, or completes its line for a shell.
func runApp(app *cli.App, args []string) error {
	if at, ok := parsePartialLine(app, args); ok {
		return at.complete(app.Writer)
	}
	args, err := reorder(app, args)
	if err != nil {
		return err
	}
	return app.RunContext(context.Background(), args)
}

// newApp is the command line. Every command is a file of its own.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	t := term.New(stdin, stdout, stderr)
	app := &cli.App{
		Name:  "tunctl",
		Usage: "a notebook on a supercomputer, one command away",
		Description: reflow(`Logs in to the cluster, submits or finds your job, waits for it, forwards its port and opens its page.
			Reconnects automatically when the laptop wakes up or the network changes.

			New here? ''tunctl demo'' needs no account. Then ''tunctl init'', and ''tunctl up''.`),
		HideHelpCommand: true, // helpCommand replaces it
		Reader:          stdin,
		Writer:          stdout,
		ErrWriter:       stderr,
		ExitErrHandler:  func(*cli.Context, error) {}, // run prints the error, once
		OnUsageError:    usageError,
		Before:          freeMainThread,
		Action:          noCommand,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read this config `FILE`", EnvVars: []string{"TUNCTL_CONFIG"}},
			&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version", DisableDefaultText: true},
			cli.HelpFlag, // the library adds it only with its own help command
		},
		Commands: withCommonHelp(commands(t)),

		DisableSliceFlagSeparator: true, // --with modules="a,b" is one value
	}
	app.CustomAppHelpTemplate = frontPage(app)
	return app
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
// person needs first comes first.
func commands(t *term.Terminal) []*cli.Command {
	return slices.Concat(
		chapter("Every day",
			upCommand(t), downCommand(t), statusCommand(t), openCommand(t), logsCommand(t), extendCommand(t), dashboardCommand(t), trayCommand(t)),
		chapter("Jobs and hosts",
			attachCommand(t), jobsCommand(t), submitCommand(t), cancelCommand(t), historyCommand(t), quotaCommand(t),
			loginCommand(t), logoutCommand(t), hostsCommand(t)),
		chapter("One login for everything",
			sshCommand(t), codeCommand(t), cpCommand(t), sshConfigCommand(t), forwardCommand(t), connectCommand(t)),
		chapter("Setting up",
			demoCommand(t), initCommand(t), sitesCommand(t), scriptCommand(t), configCommand(t), autostartCommand(t), mcpCommand(t), completionCommand(t)),
		chapter("Troubleshooting",
			doctorCommand(t), detectCommand(t), agentCommand(t), versionCommand(t)),
		[]*cli.Command{practicePageCommand(t), keyringCommand(t), manCommand(), helpCommand(t)}, // hidden
	)
}

func chapter(name string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "tunctl"
	if c.Command != nil && c.Command.Name != "" {
		name = c.Command.HelpName
	}
	return api.Errorf(api.CodeUsage, "%w", err).WithHint("`%s --help` lists the flags", name)
}

func usagef(format string, args ...any) error {
	return api.Errorf(api.CodeUsage, "%s", fmt.Sprintf(format, args...))
}

// exitError ends the program with an exit code; the message was printed before.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// printError prints an error and its hint, if it has one.
func printError(t *term.Terminal, err error) {
	if _, silent := errors.AsType[exitError](err); silent {
		return
	}
	t.Say("tunctl: error: %v", err)
	if hint := hintOf(err); hint != "" {
		t.Say("tunctl: hint: %s", hint)
	}
}

// hintOf is what a person can do about an error; empty if that is not known.
func hintOf(err error) string {
	return cmp.Or(api.HintOf(err), home.FullDiskHint(err))
}

// The exit codes, a contract with scripts.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNeedsPerson = 3
	exitTimeout     = 4
	exitAgent       = 5
	exitInterrupted = 130
)

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	switch {
	case api.HasCode(err, api.CodeUsage, api.CodeConfig, api.CodeUnknownSession):
		return exitUsage
	case api.HasCode(err, api.CodeNeedsPerson):
		return exitNeedsPerson
	case api.HasCode(err, api.CodeTimeout):
		return exitTimeout
	case api.HasCode(err, api.CodeAgent):
		return exitAgent
	}
	return exitFailed
}
