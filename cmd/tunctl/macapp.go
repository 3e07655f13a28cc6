package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"tunctl/internal/desktop"
	"tunctl/internal/term"
)

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
	err := runApp(newApp(t.In, t.Out, t.Err), []string{"tunctl", "tray"})
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
	if self, err := os.Executable(); err == nil {
		_ = desktop.Terminal(ctx, []string{self, "help"}) // nothing is left to show its error with
	}
}
