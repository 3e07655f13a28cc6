// Command tunctl takes the user from a laptop to a notebook on a supercomputer's
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
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
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
	os.Exit(runProgram(os.Args, os.Stdin, os.Stdout, os.Stderr))
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

// runProgram is the whole program without its process. A command whose output cannot be
// written ends, and fails with that error.
func runProgram(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	err := runApp(ctx, newApp(stdin, term.NewOutput(stdout, fail), stderr), args)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		printError(term.New(stdin, stdout, stderr), err)
	}
	return exitCode(err)
}

// startedAsApp reports whether this program was opened as tunctl.app. macOS starts the
// executable of an application without arguments, where a bundle with a second program
// would have to hold all of it twice. Whoever types the path in a terminal gets the help.
func startedAsApp(t *term.Terminal, args []string) bool {
	self, err := os.Executable()
	return err == nil && len(args) == 1 && !t.Interactive &&
		strings.HasSuffix(filepath.ToSlash(filepath.Dir(self)), ".app/Contents/MacOS")
}

// runAsApp shows the tray. Nobody sees what an application prints, so an error is shown
// in a dialog.
func runAsApp(t *term.Terminal) int {
	err := runApp(context.Background(), newApp(t.In, t.Out, t.Err), []string{"tunctl", "tray"})
	if err != nil {
		printError(t, err)
		showError(context.Background(), err)
	}
	return exitCode(err)
}

// showError shows an error until it is closed, with the way to the commands.
func showError(ctx context.Context, err error) {
	text := err.Error()
	if hint := hintOf(err); hint != "" {
		text += "\n\n" + hint
	}
	_, err = desktop.Ask(ctx, desktop.Question{Kind: desktop.AskChoice, Title: "tunctl", Text: text, Yes: "Open Terminal", No: "Close"})
	if err != nil {
		return // closed, or there are no dialogs
	}
	_ = desktop.Terminal(ctx, "help") // nothing is left to show its error with
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

// printErrorJSON prints the error of a command with --json that has printed no JSON.
func printErrorJSON(t *term.Terminal, c *cli.Context, err error) {
	if _, silent := errors.AsType[exitError](err); err == nil || silent || t.Encoded || !c.Bool("json") {
		return
	}
	e := *api.AsError(err)
	e.Hint = hintOf(err)
	_ = t.PrintJSON(struct { // an error ends ctx
		Error api.Error `json:"error"`
	}{e})
}

// hintOf is what the user can do about an error; empty if that is not known.
func hintOf(err error) string {
	if errors.Is(err, client.ErrNotRunning) {
		return strings.TrimSuffix(api.HintOf(err)+"; "+runningDemo(), "; ")
	}
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
	return cmp.Or(exitCodes[api.AsError(err).Code], exitFailed)
}

// exitCodes are those of errors; any other is exitFailed.
var exitCodes = map[api.Code]int{
	api.CodeUsage: exitUsage, api.CodeConfig: exitUsage, api.CodeUnknownSession: exitUsage, api.CodeUnknownHost: exitUsage, api.CodeNoScheduler: exitUsage,
	api.CodeNeedsPerson: exitNeedsPerson, api.CodeTimeout: exitTimeout, api.CodeAgent: exitAgent,
}

// reportFailures returns the error if there is one, and prints them if there are several.
func reportFailures(t *term.Terminal, errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	for _, err := range errs {
		printError(t, err)
	}
	return exitError(exitCode(errs[0]))
}
