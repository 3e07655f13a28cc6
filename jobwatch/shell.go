package jobwatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// ErrNoAnswer means that the scheduler did not answer. Its jobs are in an unknown state,
// not gone.
var ErrNoAnswer = errors.New("the scheduler does not respond")

// ErrLost means that the connection was lost during a command. It is not known whether
// the command was executed.
var ErrLost = errors.New("the connection was lost before the host answered")

// ErrIncomplete means that not all jobs were looked at that could be the one of a tag: each costs
// the server, so a query looks at a few. The next one looks at others.
var ErrIncomplete = errors.New("not all jobs were looked at yet")

// shell runs scripts on a host.
type shell struct {
	run     Runner
	limit   time.Duration
	private string        // Options.Private
	skew    *atomic.Int64 // how far the host's clock is ahead of ours, in nanoseconds; nil: nobody asks
}

// folder is the folder of the submissions, as a word of sh.
func (s *shell) folder() string {
	if s.private == "" {
		return `"$HOME"/` + tagRoot
	}
	return `"` + s.private + `"`
}

// tagFolder is the folder of one submission, as a word of sh.
func (s *shell) tagFolder(tag string) string { return s.folder() + "/" + posixsh.Quote(tag) }

// inFolders runs script, which uses these folders. Where they are may depend on a variable
// that only a login shell has.
func (s *shell) inFolders(ctx context.Context, script string) (Result, error) {
	if s.private == "" {
		return s.plain(ctx, script)
	}
	return s.login(ctx, script)
}

// login runs script with the environment of a login shell.
func (s *shell) login(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, posixsh.LoginScript, script)
}

// submitOutput is what the submit command of a tag printed; empty if it printed nothing yet.
func (s *shell) submitOutput(ctx context.Context, tag string) (Result, error) {
	res, err := s.inFolders(ctx, "cat "+s.tagFolder(tag)+"/tunctl.out 2>/dev/null\n:")
	return Result{Stdout: res.Stdout}, err
}

// query runs script like login. program is the command in it that may fail, and problem reads
// what it answered.
func (s *shell) query(ctx context.Context, script, program string, problem func(string, Result) error) (Result, error) {
	res, err := s.login(ctx, script)
	if err != nil {
		return Result{}, err
	}
	return res, problem(program, res)
}

// readClock takes the host's time from the first line of an answer, if it is there.
func (s *shell) readClock(res *Result) {
	line, rest, ok := bytes.Cut(res.Stdout, []byte("\n"))
	if !ok || !bytes.HasPrefix(line, []byte(clockWord)) {
		return
	}
	res.Stdout = rest
	if at, err := strconv.ParseInt(string(line[len(clockWord):]), 10, 64); err == nil && s.skew != nil {
		s.skew.Store(int64(time.Until(time.Unix(at, 0))))
	}
}

// clockWord begins the line in which a query prints the host's time: the times of jobs are by
// the host's clock.
const clockWord = "tunctl.clock "

// plain runs script in sh alone. That is cheap, and enough without the site's software.
func (s *shell) plain(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, posixsh.Script, script)
}

func (s *shell) framed(ctx context.Context, command, script string) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	mark := newMark()
	res, err := s.run.Run(limited, command, []byte(frame(mark, script)))
	if err != nil {
		if errors.Is(err, api.ErrBusy) {
			return Result{}, err // the host was not reached
		}
		if ctx.Err() == nil && limited.Err() != nil {
			return Result{}, fmt.Errorf("%w within %s", ErrNoAnswer, s.limit)
		}
		return Result{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	res, err = unframe(mark, res)
	s.readClock(&res)
	return res, err
}

// RunLogin runs a script on the host with the environment of a login shell, for commands
// of the site itself.
func RunLogin(ctx context.Context, r Runner, script string) (Result, error) {
	return shellOn(r).login(ctx, script)
}

func shellOn(r Runner) *shell { return &shell{run: r, limit: DefaultLimits().Command} }

// newMark returns a word that no output contains by accident.
func newMark() string { return "tunctl-" + rand.Text() }

// frame wraps script between two lines of mark on both outputs, so that the output of
// start-up and logout files stays outside. All of it is one compound command: a script
// that arrives incomplete is not executed at all.
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
		return Result{}, noFrameError(res)
	}
	status, _, _ := strings.Cut(string(rest), "\n")
	exit, err := strconv.Atoi(strings.TrimSpace(status))
	if err != nil {
		return Result{}, fmt.Errorf("%w: the answer is incomplete", ErrLost)
	}
	// Standard error is useful even without its marks.
	errout, _, ok := between(res.Stderr, mark)
	if !ok {
		errout = res.Stderr
	}
	return Result{Stdout: out, Stderr: errout, Exit: exit}, nil
}

// between returns the text between the two lines of mark, and the text after them.
func between(out []byte, mark string) (inside, after []byte, ok bool) {
	_, inside, ok = bytes.Cut(out, []byte(mark+".begin\n"))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(inside, []byte("\n"+mark+".end"))
}

// noFrameError is the error of an answer without marks: the start-up files of the login
// shell ended it, the host gives us no shell, or the connection was lost.
func noFrameError(res Result) error {
	words := api.NewRemoteText(string(res.Stderr))
	if words.IsZero() {
		words = api.NewRemoteText(string(res.Stdout))
	}
	err := fmt.Errorf("the host did not run the command (exit status %d): %q", res.Exit, words.FirstLine(200))
	return api.Errorf(api.CodeFailed, "%s", api.Redact(err.Error())).Because(err).
		WithHint("check the startup files of your login shell on the host: they must work without a terminal")
}

// clip shortens s to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
