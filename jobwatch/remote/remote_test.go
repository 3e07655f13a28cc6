package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

func TestAScriptRunsUnderEveryLoginShell(t *testing.T) {
	for name, words := range jobtest.LoginShells() {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Shell = words
			sh := &remote.Shell{Runner: m, Limit: 10 * time.Second}
			for kind, run := range map[string]func(context.Context, string) (remote.Result, error){"login": sh.Login, "plain": sh.Plain} {
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
	m := jobtest.NewMachine(t)
	m.Write(t, ".profile", m.PathLine()+`echo "Welcome!"; echo "module loaded" >&2
read answer; echo "read: $answer"
set -u; set -e; set -C; IFS=x
PATH=$PATH:`+posixsh.Quote(m.Home)+`/site
trap 'echo goodbye' EXIT`)
	m.Program(t, "probe", "echo found")
	sh := &remote.Shell{Runner: m, Limit: 10 * time.Second}
	res, err := sh.Login(t.Context(), `probe; false; echo "$NOT_SET"; echo x >"$HOME/f"; echo y >"$HOME/f"; case $PATH in *site*) echo site;; esac`)
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
	m := jobtest.NewMachine(t)
	sh := &remote.Shell{Runner: m, Limit: 10 * time.Second}
	for _, want := range []string{"", "x", "x\n", "\n\n", "a\x00b\xff\n\n"} {
		m.Write(t, "data", want)
		res, err := sh.Plain(t.Context(), `cat "$HOME/data"`)
		if err != nil {
			t.Fatal(err)
		}
		if string(res.Stdout) != want {
			t.Errorf("got %q, want %q", res.Stdout, want)
		}
	}
}

func TestNothingOfAScriptThatIsCutShortRuns(t *testing.T) {
	whole := jobtest.NewMachine(t)
	if _, err := remote.On(whole).Plain(t.Context(), `echo ran >>"$HOME/ran"; if true; then echo '}'; fi; printf '%s' 'a
}
b'`); err != nil {
		t.Fatal(err)
	}
	script := whole.Scripts[0]
	m := jobtest.NewMachine(t)
	// The script is complete with the last closing brace.
	end := strings.LastIndexByte(script, '}')
	for _, command := range []string{posixsh.LoginScript, posixsh.Script} {
		for cut := 0; cut <= end; cut++ {
			if cut%9 != 0 && cut < end-40 {
				continue
			}
			if _, err := m.Run(t.Context(), command, []byte(script[:cut])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(m.File("ran")); err == nil {
		t.Errorf("a part of the script ran: %q", m.Read(t, "ran"))
	}
}

func TestAnAnswerWithoutMarksIsAnError(t *testing.T) {
	for name, res := range map[string]remote.Result{
		"no shell":  {Stderr: []byte("This account is currently not available.\n"), Exit: 1},
		"cut":       {Stdout: []byte("MOTD\nmark.begin\nhalf an ans")},
		"no status": {Stdout: []byte("mark.begin\nx\nmark.end")},
	} {
		if got, err := remote.On(canned(res)).Plain(t.Context(), ":"); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// The startup files are named only where they may be the reason.
	for said, startup := range map[string]bool{
		"This service allows sftp connections only.\n": false,
		"This account is currently not available.\n":   false,
		"menu: 1) mail  2) quit\n":                     true,
		"":                                             true,
	} {
		_, err := remote.On(canned{Stdout: []byte(said), Exit: 1}).Plain(t.Context(), ":")
		if hint := api.HintOf(err); !strings.HasPrefix(hint, "the account may run no commands there") || strings.Contains(hint, "startup files") != startup {
			t.Errorf("%q: %s", said, hint)
		}
	}
}

// canned is a Runner that always prints the same, with the mark of the script for "mark".
type canned remote.Result

func (c canned) Run(_ context.Context, _ string, stdin []byte) (remote.Result, error) {
	mark := regexp.MustCompile(`tunctl-\w+`).Find(stdin)
	return remote.Result{Stdout: bytes.ReplaceAll(c.Stdout, []byte("mark"), mark), Stderr: c.Stderr, Exit: c.Exit}, nil
}

// stuck is a Runner whose commands never end.
type stuck struct{}

func (stuck) Run(ctx context.Context, _ string, _ []byte) (remote.Result, error) {
	<-ctx.Done()
	return remote.Result{}, ctx.Err()
}

func TestACommandThatHangsIsNoAnswerAndACancelledOneIsNot(t *testing.T) {
	sh := &remote.Shell{Runner: stuck{}, Limit: time.Millisecond}
	if _, err := sh.Plain(t.Context(), "true"); !errors.Is(err, remote.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sh.Limit = time.Minute
	if _, err := sh.Plain(ctx, "true"); errors.Is(err, remote.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// busy is a host whose sessions are all in use.
type busy struct{}

func (busy) Run(ctx context.Context, _ string, _ []byte) (remote.Result, error) {
	<-ctx.Done()
	return remote.Result{}, fmt.Errorf("%w: %w", api.ErrBusy, ctx.Err())
}

func TestAHostThatIsBusyIsNotASchedulerThatDoesNotRespond(t *testing.T) {
	sh := &remote.Shell{Runner: busy{}, Limit: time.Millisecond}
	if _, err := sh.Plain(t.Context(), ":"); !errors.Is(err, api.ErrBusy) || errors.Is(err, remote.ErrNoAnswer) || errors.Is(err, remote.ErrLost) {
		t.Errorf("%v", err)
	}
}
