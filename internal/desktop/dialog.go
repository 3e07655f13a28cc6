package desktop

import (
	"bytes"
	"context"
	_ "embed" // the scripts of Windows
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// ErrCancelled says that the user closed a dialog without an answer, or said no.
var ErrCancelled = errors.New("cancelled")

// Question is what a window asks.
type Question struct {
	Title string
	Text  string
	Kind  QuestionKind
	// Value is what a line has at first, such as an address to copy.
	Value string
	// Yes and No label the buttons of a choice, if the system allows that.
	Yes, No string
}

// QuestionKind says what the window has for the answer.
type QuestionKind int

// The kinds of questions.
const (
	AskSecret QuestionKind = iota // a line that is not shown while it is typed
	AskLine                       // a line
	AskChoice                     // yes or no; no is what Enter means
)

// hasLink reports whether a question shows a web address. That of a login is a secret until
// it is used, so it must not be on a command line, which every user of the machine can read.
func (q Question) hasLink() bool { return strings.Contains(q.Text+q.Value, "://") }

// dialog is a program that asks. Its command line, environment or standard input has the
// question; the answer is its output.
type dialog struct {
	before    *dialog // a window that only shows a text, for which this one has no place; nil: none
	argv      []string
	env       []string
	stdin     string
	ok        int // an exit code that means OK, beside 0
	cancelled func(code int, stderr string) bool
	base64    bool // the output is
}

// CanAsk reports whether this desktop has a program that can ask.
func CanAsk() bool {
	return slices.ContainsFunc(dialogs(runtime.GOOS, Question{}), func(d dialog) bool {
		_, err := exec.LookPath(d.argv[0])
		return err == nil
	})
}

// Ask shows a question until it is answered or ctx ends, and returns the line, or
// "yes" for a choice. It returns ErrCancelled if the user declined to answer, and an
// error that wraps ErrUnavailable if this desktop has no program that can ask.
func Ask(ctx context.Context, q Question) (string, error) {
	q.Title, q.Text, q.Value = printable(q.Title), printable(q.Text), printable(q.Value)
	var failures []error
	var programs [][]string
	for _, d := range dialogs(runtime.GOOS, q) {
		programs = append(programs, d.argv)
		answer, err := d.show(ctx)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil && q.Kind == AskChoice:
			return "yes", nil
		case err == nil, errors.Is(err, ErrCancelled):
			return answer, err
		}
		failures = append(failures, err)
	}
	return "", unavailable(programs, failures)
}

// dialogs lists the programs that can ask on a system, the best first.
func dialogs(goos string, q Question) []dialog {
	switch {
	case goos == "windows":
		return []dialog{powershellDialog(q)}
	case goos == "darwin":
		return []dialog{osascriptDialog(q)}
	case !graphical():
		return nil
	case strings.Contains(os.Getenv("XDG_CURRENT_DESKTOP"), "KDE"):
		return []dialog{kdialog(q), zenity(q)}
	}
	return []dialog{zenity(q), kdialog(q)}
}

// show runs the program to its end.
func (d dialog) show(ctx context.Context) (string, error) {
	if d.before != nil {
		if _, err := d.before.show(ctx); err != nil {
			return "", err
		}
	}
	cmd := command(ctx, d.argv, d.env...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(d.stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		switch exit, ended := errors.AsType[*exec.ExitError](err); {
		case ended && d.ok > 0 && exit.ExitCode() == d.ok:
		case ended && d.cancelled(exit.ExitCode(), stderr.String()):
			return "", ErrCancelled
		default:
			return "", fmt.Errorf("%s: %w: %s", d.argv[0], err, strings.TrimSpace(stderr.String()))
		}
	}
	return d.answer(out.String())
}

func (d dialog) answer(output string) (string, error) {
	if !d.base64 {
		return strings.TrimSuffix(output, "\n"), nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(output))
	if err != nil {
		return "", fmt.Errorf("read the dialog's answer: %w", err)
	}
	return string(text), nil
}

// printable removes what could change how a window shows a server's text.
func printable(text string) string {
	return strings.ReplaceAll(api.Sanitize(text), "\t", " ")
}

const (
	// dialogWidth holds the longest fingerprint in one line.
	dialogWidth = "460"
	textHeight  = "320"
	textColumns = 66
)

// then is a window that shows the text of a question, and after it one for the answer. An
// address to copy needs no answer: it is in the text.
func (d dialog) then(q Question, ask func(Question) dialog) dialog {
	if q.Value != "" {
		return d
	}
	q.Text = "Your answer:"
	after := ask(q)
	after.before = &d
	return after
}

// zenity is the tool of GNOME, and of most other desktops on Linux.
func zenity(q Question) dialog {
	argv := []string{"zenity", "--title=" + q.Title, "--width=" + dialogWidth}
	// Without a display it also exits with 1, but prints "cannot open display"
	// (GTK 3) or "Failed to open display" (GTK 4). Other messages mean nothing.
	cancelled := func(code int, stderr string) bool { return code == 1 && !strings.Contains(stderr, "open display") }
	if q.hasLink() {
		text := dialog{argv: append(argv, "--height="+textHeight, "--text-info", "--ok-label=Continue"), stdin: q.Text, cancelled: cancelled}
		return text.then(q, zenity)
	}
	// Its windows grow with long lines, and it reads C's escapes.
	text := strings.ReplaceAll(term.WrapMessage(q.Text, textColumns), `\`, `\\`)
	switch q.Kind {
	case AskChoice:
		argv = append(argv, "--question", "--no-markup", "--default-cancel", "--ok-label="+q.Yes, "--cancel-label="+q.No)
	case AskSecret:
		argv = append(argv, "--entry", "--hide-text")
	case AskLine:
		argv = append(argv, "--entry", "--entry-text="+q.Value)
	}
	if q.Kind != AskChoice {
		text = strings.ReplaceAll(text, "_", "__") // one marks a shortcut
	}
	return dialog{argv: append(argv, "--text="+text), cancelled: cancelled}
}

// kdialog is the tool of KDE.
func kdialog(q Question) dialog {
	text := strings.ReplaceAll(q.Text, "<", "‹") // it takes text that looks like HTML for HTML
	argv := []string{"kdialog", "--title", q.Title}
	cancelled := func(code int, _ string) bool { return code == 1 }
	if q.hasLink() {
		text := dialog{argv: append(argv, "--textbox", "-", dialogWidth, textHeight), stdin: q.Text, ok: 1, cancelled: cancelled} // its "OK" exits with 1
		return text.then(q, kdialog)
	}
	switch q.Kind {
	case AskChoice:
		argv = append(argv, "--yes-label", q.Yes, "--no-label", q.No, "--warningyesno", text)
	case AskSecret:
		argv = append(argv, "--password", text)
	case AskLine:
		argv = append(argv, "--inputbox", text, q.Value)
	}
	return dialog{argv: argv, cancelled: cancelled}
}

// osascriptDialog is the tool of macOS. The texts are in the environment or arguments of
// the script, not part of it.
func osascriptDialog(q Question) dialog {
	fromEnv := func(name string) string {
		return `(do shell script "printf %s \"$` + name + `\"" without altering line endings)` // "system attribute" would change letters
	}
	show := `display dialog ` + fromEnv("TUNCTL_ASK_TEXT") + ` with title (item 1 of argv) `
	switch q.Kind {
	case AskChoice:
		show += `buttons {item 3 of argv, item 2 of argv} default button 1 cancel button 1 with icon caution`
	case AskSecret:
		show = `text returned of (` + show + `default answer "" with hidden answer)`
	case AskLine:
		show = `text returned of (` + show + `default answer ` + fromEnv("TUNCTL_ASK_VALUE") + `)`
	}
	return dialog{
		argv: []string{
			"osascript", "-e", "on run argv", "-e", "activate", "-e", show, "-e", "end run", q.Title, q.Yes, q.No,
		},
		env:       []string{"TUNCTL_ASK_TEXT=" + q.Text, "TUNCTL_ASK_VALUE=" + q.Value},
		cancelled: func(_ int, stderr string) bool { return strings.Contains(stderr, "(-128)") }, // userCanceledErr
	}
}

// windowScript asks in a window of Windows. PowerShell exits with 1 if it fails, so 3
// is for a cancelled dialog. The answer is in base64, since the console's code page
// would change it.
//
//go:embed ask.ps1
var windowScript string

// powershellDialog is the tool of Windows. The texts are in the environment, where they
// need no quoting.
func powershellDialog(q Question) dialog {
	kinds := map[QuestionKind]string{AskSecret: "secret", AskLine: "line", AskChoice: "choice"}
	return dialog{
		argv: powershell(windowScript),
		env: []string{
			"TUNCTL_ASK_TITLE=" + q.Title, "TUNCTL_ASK_TEXT=" + strings.ReplaceAll(q.Text, "\n", "\r\n"),
			"TUNCTL_ASK_VALUE=" + q.Value, "TUNCTL_ASK_KIND=" + kinds[q.Kind],
		},
		cancelled: func(code int, _ string) bool { return code == 3 },
		base64:    true,
	}
}
