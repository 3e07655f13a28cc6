package jobwatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// The two commands that are ever sent to a host. They are constants without a
// character that bash, zsh, fish, tcsh and sh read differently inside single
// quotes; the script travels on standard input.
//
// loginCommand gives the script a login shell's environment, where many sites set
// the PATH of their scheduler. The script moves out of the way to descriptor 3
// first, so that a start-up file that reads its standard input finds it empty.
const (
	loginCommand = `exec sh -c 'exec 3<&0 </dev/null; ` +
		`command -v bash >/dev/null 2>&1 && exec bash -lc "eval \"\$(cat <&3)\""; ` +
		`exec sh -lc "eval \"\$(cat <&3)\""'`
	plainCommand = `exec sh -s`
)

// ErrNoAnswer means that the scheduler did not answer: its jobs are in an unknown
// state, not gone.
var ErrNoAnswer = errors.New("the scheduler does not respond")

// ErrLost means that the link was lost over a command, whose fate is unknown.
var ErrLost = errors.New("the connection was lost before the host answered")

// shell runs scripts on a host.
type shell struct {
	run   Runner
	limit time.Duration
}

// login runs script with the environment of a login shell.
func (s *shell) login(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, loginCommand, script)
}

// plain runs script in the bare sh: cheap, for what needs no site software.
func (s *shell) plain(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, plainCommand, script)
}

func (s *shell) framed(ctx context.Context, command, script string) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	mark := newMark()
	res, err := s.run.Run(limited, command, []byte(frame(mark, script)))
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			return Result{}, fmt.Errorf("%w within %s", ErrNoAnswer, s.limit)
		}
		return Result{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return unframe(mark, res)
}

// RunLogin runs a script on the host with the environment of a login shell, for
// what only the site's own programs can tell.
func RunLogin(ctx context.Context, r Runner, script string) (Result, error) {
	return readShell(r).login(ctx, script)
}

func readShell(r Runner) *shell { return &shell{run: r, limit: DefaultLimits().Command} }

// newMark returns a word that no output contains by chance.
func newMark() string { return "tunctl-" + rand.Text() }

// frame wraps script between two lines of mark on both outputs, so that what
// start-up and logout files print stays outside. All of it is one compound command:
// of a script that arrives cut short, nothing runs.
func frame(mark, script string) string {
	return "{\n" +
		"set +eufC; unset CDPATH IFS\n" +
		"printf '%s\\n' " + mark + ".begin; printf '%s\\n' " + mark + ".begin >&2\n" +
		"(\n" + script + "\n)\n" +
		"set -- $?\n" +
		"printf '\\n%s %s\\n' " + mark + ".end $1; printf '\\n%s\\n' " + mark + ".end >&2\n" +
		"} </dev/null\n"
}

func unframe(mark string, res Result) (Result, error) {
	out, rest, ok := between(res.Stdout, mark)
	if !ok {
		return Result{}, notFramed(res)
	}
	exit, err := strconv.Atoi(strings.TrimSpace(firstLine(rest)))
	if err != nil {
		return Result{}, fmt.Errorf("%w: the answer is incomplete", ErrLost)
	}
	// Without its marks, standard error is still worth showing.
	errout, _, ok := between(res.Stderr, mark)
	if !ok {
		errout = res.Stderr
	}
	return Result{Stdout: out, Stderr: errout, Exit: exit}, nil
}

// between returns what stands between the two lines of mark, and what follows.
func between(out []byte, mark string) (inside, after []byte, ok bool) {
	_, inside, ok = bytes.Cut(out, []byte(mark+".begin\n"))
	if !ok {
		return nil, nil, false
	}
	return cutEnd(inside, mark)
}

func cutEnd(out []byte, mark string) (inside, after []byte, ok bool) {
	return bytes.Cut(out, []byte("\n"+mark+".end"))
}

// notFramed says why an answer has no marks: the start-up files of the login shell
// ended it, the host has no shell for us, or the link went in between.
func notFramed(res Result) error {
	words := api.NewRemoteText(string(res.Stderr))
	if words.IsZero() {
		words = api.NewRemoteText(string(res.Stdout))
	}
	err := fmt.Errorf("the host did not run the command (exit status %d): %q", res.Exit, words.FirstLine(200))
	return &api.Error{
		Code:    api.CodeFailed,
		Message: api.Redact(err.Error()),
		Hint:    "check the startup files of your login shell on the host: they must work without a terminal",
		Err:     err,
	}
}

// quote makes s one word of a POSIX shell, whatever it contains. A NUL byte cannot
// be in any word and ends it.
func quote(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteAll quotes each word.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// quotePath quotes a path on the host; a leading ~/ becomes the home folder.
func quotePath(path string) string {
	if path == "~" {
		return `"$HOME"`
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return `"$HOME"/` + quote(rest)
	}
	return quote(path)
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// clip shortens s to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
