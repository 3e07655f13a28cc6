// Package remote runs scripts on the login node of a host, through a [Runner] that somebody else
// has: it does not know SSH.
//
// Every command sent to a host is a constant with a script on its standard input, so that a
// login shell has nothing to interpret. Everything inside the script is quoted. Nothing of
// tunctl keeps running on the host. [Limits] say how often a host may be asked for something.
package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// Runner runs one command on the login node and returns its output. After an error it is
// not known whether the command was executed: the connection was lost, or ctx ended.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) (Result, error)
}

// Result is what a command printed and its exit status.
type Result struct {
	Stdout, Stderr []byte
	Exit           int
}

// ErrNoAnswer means that the scheduler did not answer. Its jobs are in an unknown state,
// not gone.
var ErrNoAnswer = errors.New("the scheduler does not respond")

// ErrLost means that the connection was lost during a command. It is not known whether
// the command was executed.
var ErrLost = errors.New("the connection was lost before the host answered")

// Shell runs scripts on a host.
type Shell struct {
	Runner Runner
	Limit  time.Duration // how long one script may take
	// Private is the folder for our files on the host, as text for double quotes of sh; its
	// last part is FolderName. "" is that of the home folder.
	Private string

	skew atomic.Int64 // how far the host's clock is ahead of ours, in nanoseconds
}

// On returns a shell on the host that r reaches, with the default time limit.
func On(r Runner) *Shell { return &Shell{Runner: r, Limit: DefaultLimits().Command} }

// FolderName is the name of the folder for our files on a host.
const FolderName = ".tunctl"

// Folder is the folder for our files, as a word of sh.
func (s *Shell) Folder() string {
	if s.Private == "" {
		return `"$HOME"/` + FolderName
	}
	return `"` + s.Private + `"`
}

// InFolder runs script, which uses that folder. Where it is may depend on a variable that only
// a login shell has.
func (s *Shell) InFolder(ctx context.Context, script string) (Result, error) {
	if s.Private == "" {
		return s.Plain(ctx, script)
	}
	return s.Login(ctx, script)
}

// Skew is how far the host's clock was ahead of ours at the last query; 0 if it is not known.
func (s *Shell) Skew() time.Duration { return time.Duration(s.skew.Load()) }

// Now is the host's time, by which the times of jobs are.
func (s *Shell) Now() time.Time { return time.Now().Add(s.Skew()).UTC() }

// Login runs script with the environment of a login shell.
func (s *Shell) Login(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, posixsh.LoginScript, script)
}

// readClock takes the host's time from the first line of an answer, if it is there.
func (s *Shell) readClock(res *Result) {
	line, rest, ok := bytes.Cut(res.Stdout, []byte("\n"))
	if !ok || !bytes.HasPrefix(line, []byte(clockWord)) {
		return
	}
	res.Stdout = rest
	if at, err := strconv.ParseInt(string(line[len(clockWord):]), 10, 64); err == nil {
		s.skew.Store(int64(time.Until(time.Unix(at, 0))))
	}
}

// clockWord begins the line in which a query prints the host's time: the times of jobs are by
// the host's clock.
const clockWord = "tunctl.clock "

// QueryPrelude precedes every query. It makes words and times independent of the user's
// settings, and its function limit ends commands that wait for a hung server. It is not for
// commands that submit: a job inherits their environment. It prints the host's time first.
const QueryPrelude = `export LC_ALL=C TZ=UTC0
printf '` + clockWord + `%s\n' "$(date +%s)"
limit() { if command -v timeout >/dev/null 2>&1; then timeout 25 "$@"; else command "$@"; fi; }
`

// Plain runs script in sh alone. That is cheap, and enough without the site's software.
func (s *Shell) Plain(ctx context.Context, script string) (Result, error) {
	return s.framed(ctx, posixsh.Script, script)
}

func (s *Shell) framed(ctx context.Context, command, script string) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	mark := NewMark()
	res, err := s.Runner.Run(limited, command, []byte(frame(mark, script)))
	if err != nil {
		if errors.Is(err, api.ErrBusy) {
			return Result{}, err // the host was not reached
		}
		if ctx.Err() == nil && limited.Err() != nil {
			return Result{}, fmt.Errorf("%w within %s", ErrNoAnswer, api.DurationText(s.Limit))
		}
		return Result{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	res, err = unframe(mark, res)
	s.readClock(&res)
	return res, err
}

// NewMark returns a word that no output contains by accident.
func NewMark() string { return "tunctl-" + rand.Text() }

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
	if !ok && bytes.Contains(res.Stdout, []byte(mark)) {
		return Result{}, api.Errorf(api.CodeFailed, "the command on the host was ended before its answer (exit status %d)", res.Exit)
	}
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

// noFrameError is the error of an answer without marks: the account runs no commands, or the
// start-up files of the login shell ended it. A forced command may print anything.
func noFrameError(res Result) error {
	words := api.NewRemoteText(string(res.Stderr))
	if words.IsZero() {
		words = api.NewRemoteText(string(res.Stdout))
	}
	hint := "the account may run no commands there: one for file transfers only, with a fixed command or without a login shell cannot be used; ask the site for another"
	if !noCommands.MatchString(words.String()) {
		hint += ". If `ssh HOST true` works, the startup files of your login shell must work without a terminal, too"
	}
	err := fmt.Errorf("the host did not run the command (exit status %d): %q", res.Exit, words.FirstLine(200))
	return api.Errorf(api.CodeFailed, "%s", api.Redact(err.Error())).Because(err).
		WithHint("%s", hint)
}

// noCommands matches what sftp-only accounts, nologin and restricted shells print.
var noCommands = regexp.MustCompile(`(?i)sftp connections only|account is (?:currently )?not available|restricted|shell access|interactive login`)

// Local is a Runner on this computer, for an agent that runs on the cluster itself. The
// file system notifies a Follower with this Runner of changes. The Follower polls as well,
// since network file systems do not notify.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}
