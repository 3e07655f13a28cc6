// Command tunctl takes a person from a laptop to a notebook on a supercomputer's
// compute node, and keeps them there. It is the CLI, the background agent
// (`tunctl agent run`) and the desktop companion (`tunctl tray`) in one program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/tunnel"
)

func main() {
	if socket := os.Getenv(tunnel.AskpassSocket); socket != "" {
		os.Exit(askpass(socket, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the process around it.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := newApp(stdin, stdout, stderr)
	args, err := reorder(app, args)
	if err == nil {
		err = app.RunContext(context.Background(), args)
	}
	if err != nil {
		explain(newTerminal(stdin, stdout, stderr), err)
	}
	return exitCode(err)
}

// newApp is the command line. Every command is a file of its own.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	t := newTerminal(stdin, stdout, stderr)
	return &cli.App{
		Name:  "tunctl",
		Usage: "a notebook on a supercomputer, one command away",
		Description: reflow("Log in, submit or find the job, wait for it, forward its port, open its page, and keep\n" +
			"all of that up when the laptop sleeps or the network changes.\n\n" +
			"Start with `tunctl demo`: it needs no account. Then `tunctl init`, and `tunctl up`."),
		Version:                version(),
		HideVersion:            true, // there is a command
		Suggest:                true,
		EnableBashCompletion:   true,
		UseShortOptionHandling: false,
		Reader:                 stdin,
		Writer:                 stdout,
		ErrWriter:              stderr,
		ExitErrHandler:         func(*cli.Context, error) {}, // run prints the error, once
		OnUsageError:           usageError,
		Before:                 freeMainThread,
		Action:                 noCommand,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read this config `FILE`", EnvVars: []string{"TUNCTL_CONFIG"}},
		},
		Commands: tidy(commands(t)),
	}
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "tunctl"
	if c.Command != nil && c.Command.Name != "" {
		name = c.Command.HelpName
	}
	return &api.Error{Code: api.CodeUsage, Message: err.Error(), Hint: fmt.Sprintf("`%s --help` lists the flags", name), Err: err}
}

func usagef(format string, args ...any) error {
	return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf(format, args...)}
}

// silentError ends the program with its exit code alone: what is to be said was said.
type silentError int

func (e silentError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// explain prints an error and, where we know it, the way out.
func explain(t *terminal, err error) {
	if _, silent := errors.AsType[silentError](err); silent {
		return
	}
	t.say("tunctl: error: %v", err)
	hint := home.FullDiskHint(err)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		hint = e.Hint
	}
	if hint != "" {
		t.say("tunctl: hint: %s", hint)
	}
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
	if code, ok := errors.AsType[silentError](err); ok {
		return int(code)
	}
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return exitFailed
	}
	switch e.Code {
	case api.CodeUsage, api.CodeConfig, api.CodeUnknownSession:
		return exitUsage
	case api.CodeNeedsPerson:
		return exitNeedsPerson
	case api.CodeTimeout:
		return exitTimeout
	case api.CodeAgent:
		return exitAgent
	}
	return exitFailed
}
