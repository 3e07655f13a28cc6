package jobwatch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// testOnly is an sbatch that knows --test-only and reads the job from standard input.
const testOnly = `printf '%s\n' "$*" >>"$HOME/words"
cat >"$HOME/tested"
case " $* " in
*" --test-only "*) echo "sbatch: Job 9 to start at 2026-11-15T00:38:26 using 2 processors on nodes cn01 in partition normal" >&2; exit ;;
esac
echo 1; exit 1`

// TestStartTime: the start of a tested job is read from standard error.
func TestStartTime(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Program(t, "sbatch", testOnly)
	m.Write(t, "nb.sh", "#!/bin/sh\r\necho it is mine\r\n")
	if err := os.Mkdir(m.File("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	t.Setenv("HOME", here)
	want := time.Date(2026, 11, 15, 0, 38, 26, 0, time.UTC)
	for name, s := range map[string]Submission{
		"a script here":  {Content: []byte("#!/bin/sh\r\necho it is mine\r\n"), Base: "nb.sh", Args: []string{"--comment=a b"}},
		"a script there": {Script: "~/nb.sh", Args: []string{"--comment=a b"}},
		"a folder here":  {Script: "~/nb.sh", Workdir: here + "/work", Args: []string{"--comment=a b"}},
	} {
		start, err := slurmWatcher(m).TestStart(t.Context(), s)
		if err != nil || !start.At.Equal(want) || start.Submitted != "" {
			t.Fatalf("%s: %+v, %v", name, start, err)
		}
		if tested, err := os.ReadFile(m.File("tested")); err != nil || string(tested) != "#!/bin/sh\necho it is mine\n" {
			t.Errorf("%s: tested %q, %v", name, tested, err)
		}
		if words, err := os.ReadFile(m.File("words")); err != nil || !strings.HasSuffix(string(words), "--test-only --parsable --comment=a b\n") {
			t.Errorf("%s: the words %q, %v", name, words, err)
		}
	}
}

// TestStartSubmits: a job that a test submits is cancelled at once.
func TestStartSubmits(t *testing.T) {
	for name, tt := range map[string]struct{ answer, job, cancelled string }{
		"an id":                           {`echo "a word from the site"; echo 4711`, "4711", "4711\n"},
		"a sentence":                      {`echo "Submitted batch job 4712"`, "4712", "4712\n"},
		"a cluster":                       {`echo "4713;north"`, "4713;north", "-M north 4713\n"},
		"a failure":                       {`echo 4714; exit 1`, "4714", "4714\n"},
		"a sentence, then another number": {`echo "Submitted batch job 4715"; echo 12`, "4715", "4715\n"},
		"a sentence with a cluster":       {`echo "Submitted batch job 4716 on cluster gpu"`, "4716;gpu", "-M gpu 4716\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Program(t, "sbatch", tt.answer)
			m.Program(t, "scancel", `printf '%s\n' "$*" >>"$HOME/cancelled"`)
			start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"})
			if err != nil || start.Submitted != tt.job || !start.Cancelled || !start.At.IsZero() {
				t.Errorf("%+v, %v", start, err)
			}
			if words, err := os.ReadFile(m.File("cancelled")); err != nil || string(words) != tt.cancelled {
				t.Errorf("cancelled %q, %v", words, err)
			}
		})
	}
	t.Run("a cancel that fails", func(t *testing.T) {
		m := jobtest.NewMachine(t)
		m.Program(t, "sbatch", "echo 4711")
		m.Program(t, "scancel", "exit 1")
		start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"})
		if err != nil || start.Submitted != "4711" || start.Cancelled {
			t.Errorf("%+v, %v", start, err)
		}
	})
}

// TestStartSubmitsUnseen: a job that a test submitted is told later if the answer is lost.
func TestStartSubmitsUnseen(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Program(t, "sbatch", `echo run >>"$HOME/runs"; while test ! -f "$HOME/lost"; do sleep 0.01; done
echo "sbatch: a word from the site" >&2; echo 4711`)
	m.Program(t, "scancel", `echo "scancel: one too" >&2; printf '%s\n' "$*" >>"$HOME/cancelled"`)
	s := Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}
	if start, err := slurmWatcher(unread{m, t}).TestStart(t.Context(), s); !errors.Is(err, remote.ErrLost) || start.Submitted != "" {
		t.Fatalf("%+v, %v", start, err)
	}
	for range 2 {
		if start, err := slurmWatcher(m).TestStart(t.Context(), s); err != nil || start.Submitted != "4711" || !start.Cancelled {
			t.Errorf("%+v, %v", start, err)
		}
	}
	if runs, cancelled := m.Read(t, "runs"), m.Read(t, "cancelled"); runs != "run\n" || cancelled != "4711\n" {
		t.Errorf("sbatch: %q, scancel: %q", runs, cancelled)
	}
}

// unread is a machine whose connection is lost once a command runs: nobody reads what it
// prints. The file "lost" says so to the command.
type unread struct {
	*jobtest.Machine
	t *testing.T
}

func (u unread) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return remote.Result{}, err
	}
	cmd := u.Command(ctx, command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), w, w
	err = cmd.Start()
	_ = w.Close()
	lines := bufio.NewReader(r)
	for range 2 { // the marks before the script, on both outputs
		if err == nil {
			_, err = lines.ReadString('\n')
		}
	}
	_ = r.Close()
	u.Write(u.t, "lost", "")
	_ = cmd.Wait()
	return remote.Result{}, cmp.Or(err, io.ErrUnexpectedEOF)
}

// TestStartRefused: a test says that the scheduler would refuse the job.
func TestStartRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		test   func(sched.Start, error) bool
	}{
		"refused": {`echo "allocation failure: Invalid account or account/partition combination specified" >&2; exit 1`, func(_ sched.Start, err error) bool {
			e, ok := errors.AsType[*api.Error](err)
			return ok && e.Code == api.CodeSubmit && strings.Contains(e.Message, "Invalid account") && e.Hint != sched.SiteRuleHint
		}},
		"no controller": {`echo "sbatch: error: Unable to contact slurm controller (connect failure)" >&2; exit 1`, func(_ sched.Start, err error) bool {
			return errors.Is(err, remote.ErrNoAnswer)
		}},
		"other words": {`echo "sbatch: looks fine" >&2`, func(s sched.Start, err error) bool {
			return err == nil && s.At.IsZero() && strings.Contains(s.Words, "looks fine")
		}},
	} {
		m := jobtest.NewMachine(t)
		m.Program(t, "sbatch", tt.answer)
		if start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}); !tt.test(start, err) {
			t.Errorf("%s: %+v, %v", name, start, err)
		}
	}
}

// constant is a host whose every command writes the same to standard error.
type constant struct{ says string }

func (c constant) Run(_ context.Context, _ string, stdin []byte) (remote.Result, error) {
	return jobtest.Answer(string(stdin), "", c.says, 0), nil
}

// TestStartPace: tests of jobs keep the distance of queries.
func TestStartPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := constant{"sbatch: Job 9 to start at 1794702650 using 1 processors"}
		w := NewWatcher(c, Options{Scheduler: slurmName, Limits: remote.DefaultLimits()})
		begin := time.Now()
		for range 4 {
			if start, err := w.TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n")}); err != nil || start.At.Unix() != 1794702650 {
				t.Fatalf("%+v, %v", start, err)
			}
		}
		if took := time.Since(begin); took != 3*remote.DefaultLimits().QueryMin {
			t.Errorf("four tests took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.TestStart(ctx, Submission{Content: []byte("#!/bin/sh\n")}); !errors.Is(err, context.Canceled) {
			t.Errorf("a person who leaves waits: %v", err)
		}
	})
}

// TestStartWithoutScheduler: a host without a scheduler starts a job at once.
func TestStartWithoutScheduler(t *testing.T) {
	w := NewWatcher(jobtest.NewMachine(t), Options{Scheduler: noScheduler})
	before := time.Now()
	if start, err := w.TestStart(t.Context(), Submission{}); err != nil || start.At.Before(before) || start.At.After(time.Now()) || start.Words == "" {
		t.Errorf("%+v, %v", start, err)
	}
}

// TestStartNotTold: a scheduler that tells no start is not asked.
func TestStartNotTold(t *testing.T) {
	for _, scheduler := range []string{pbsName, gridEngineName} {
		w := NewWatcher(nil, Options{Scheduler: scheduler})
		if start, err := w.TestStart(t.Context(), Submission{}); err != nil || !start.At.IsZero() || start.Words == "" {
			t.Errorf("%s: %+v, %v", scheduler, start, err)
		}
	}
}
