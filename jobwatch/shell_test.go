package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// loginShells are the shells that people have, with how sshd starts them.
func loginShells() map[string][]string {
	shells := map[string][]string{}
	for name, words := range map[string][]string{
		"sh": {"sh", "-c"}, "bash": {"bash", "-c"}, "dash": {"dash", "-c"}, "zsh": {"zsh", "-c"},
		"fish": {"fish", "-c"}, "csh": {"csh", "-c"}, "tcsh": {"tcsh", "-c"}, "ksh": {"ksh", "-c"}, "busybox": {"busybox", "sh", "-c"},
	} {
		if _, err := exec.LookPath(words[0]); err == nil {
			shells[name] = words
		}
	}
	return shells
}

func TestAScriptRunsUnderEveryLoginShell(t *testing.T) {
	for name, words := range loginShells() {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.shell = words
			sh := &shell{run: m, limit: 10 * time.Second}
			for kind, run := range map[string]func(context.Context, string) (Result, error){"login": sh.login, "plain": sh.plain} {
				res, err := run(t.Context(), `printf '%s|%s' 'it'\''s "$HOME" \ !x' "$(cat)"; echo oops >&2; exit 7`)
				if err != nil {
					t.Fatal(kind, err)
				}
				if got, want := string(res.Stdout), `it's "$HOME" \ !x|`; got != want || string(res.Stderr) != "oops\n" || res.Exit != 7 {
					t.Errorf("%s: got %q, %q, %d", kind, got, res.Stderr, res.Exit)
				}
			}
		})
	}
}

func TestWhatStartUpFilesDoStaysOutside(t *testing.T) {
	m := newMachine(t)
	m.file(t, ".profile", m.pathLine()+`echo "Welcome!"; echo "module loaded" >&2
read answer; echo "read: $answer"
set -u; set -e; set -C; IFS=x
PATH=$PATH:`+posixsh.Quote(m.home)+`/site
trap 'echo goodbye' EXIT`)
	m.program(t, "probe", "echo found")
	sh := &shell{run: m, limit: 10 * time.Second}
	res, err := sh.login(t.Context(), `probe; false; echo "$NOT_SET"; echo x >"$HOME/f"; echo y >"$HOME/f"; case $PATH in *site*) echo site;; esac`)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Stdout); got != "found\n\nsite\n" {
		t.Errorf("stdout %q", got)
	}
	if len(res.Stderr) != 0 {
		t.Errorf("stderr %q", res.Stderr)
	}
}

func TestOutputWithoutANewlineAndWithNULsComesBackWhole(t *testing.T) {
	m := newMachine(t)
	sh := &shell{run: m, limit: 10 * time.Second}
	for _, want := range []string{"", "x", "x\n", "\n\n", "a\x00b\xff\n\n"} {
		m.file(t, "data", want)
		res, err := sh.plain(t.Context(), `cat "$HOME/data"`)
		if err != nil {
			t.Fatal(err)
		}
		if string(res.Stdout) != want {
			t.Errorf("got %q, want %q", res.Stdout, want)
		}
	}
}

func TestNothingOfAScriptThatIsCutShortRuns(t *testing.T) {
	m := newMachine(t)
	script := frame("mark", `echo ran >>"$HOME/ran"; if true; then echo '}'; fi; printf '%s' 'a
}
b'`)
	// The script is complete with the last closing brace.
	whole := strings.LastIndexByte(script, '}')
	for _, command := range []string{posixsh.LoginScript, posixsh.Script} {
		for cut := 0; cut <= whole; cut++ {
			if cut%9 != 0 && cut < whole-40 {
				continue
			}
			if _, err := m.Run(t.Context(), command, []byte(script[:cut])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(m.path("ran")); err == nil {
		t.Errorf("a part of the script ran: %q", m.read(t, "ran"))
	}
}

func TestAnAnswerWithoutMarksIsAnError(t *testing.T) {
	for name, res := range map[string]Result{
		"no shell":  {Stderr: []byte("This account is currently not available.\n"), Exit: 1},
		"cut":       {Stdout: []byte("MOTD\nmark.begin\nhalf an ans")},
		"no status": {Stdout: []byte("mark.begin\nx\nmark.end")},
	} {
		if got, err := unframe("mark", res); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// stuck is a Runner whose commands never end.
type stuck struct{}

func (stuck) Run(ctx context.Context, _ string, _ []byte) (Result, error) {
	<-ctx.Done()
	return Result{}, ctx.Err()
}

func TestACommandThatHangsIsNoAnswerAndACancelledOneIsNot(t *testing.T) {
	sh := &shell{run: stuck{}, limit: time.Millisecond}
	if _, err := sh.plain(t.Context(), "true"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sh.limit = time.Minute
	if _, err := sh.plain(ctx, "true"); errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// busy is a host whose sessions are all in use.
type busy struct{}

func (busy) Run(ctx context.Context, _ string, _ []byte) (Result, error) {
	<-ctx.Done()
	return Result{}, fmt.Errorf("%w: %w", api.ErrBusy, ctx.Err())
}

func TestAHostThatIsBusyIsNotASchedulerThatDoesNotRespond(t *testing.T) {
	sh := &shell{run: busy{}, limit: time.Millisecond}
	if _, err := sh.plain(t.Context(), ":"); !errors.Is(err, api.ErrBusy) || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}
