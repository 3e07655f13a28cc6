package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

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

// hintOf is what the user can do about an error; empty if that is not known.
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
	return cmp.Or(exitCodes[api.AsError(err).Code], exitFailed)
}

// exitCodes are those of errors; any other is exitFailed.
var exitCodes = map[api.Code]int{
	api.CodeUsage: exitUsage, api.CodeConfig: exitUsage, api.CodeUnknownSession: exitUsage, api.CodeNoScheduler: exitUsage,
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
