package desktop

import (
	"bytes"
	"context"
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
