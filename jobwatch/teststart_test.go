package jobwatch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

// testOnly is an sbatch that knows --test-only and reads the job from standard input.
const testOnly = `printf '%s\n' "$*" >>"$HOME/words"
cat >"$HOME/tested"
case " $* " in
*" --test-only "*) echo "sbatch: Job 9 to start at 2026-11-15T00:38:26 using 2 processors on nodes cn01 in partition normal" >&2; exit ;;
esac
echo 1; exit 1`

func TestTheStartOfATestedJobIsReadFromStandardError(t *testing.T) {
	m := newMachine(t)
	m.program(t, "sbatch", testOnly)
	m.file(t, "nb.sh", "#!/bin/sh\r\necho it is mine\r\n")
	want := time.Date(2026, 11, 15, 0, 38, 26, 0, time.UTC)
	for name, s := range map[string]Submission{
		"a script here":  {Content: []byte("#!/bin/sh\r\necho it is mine\r\n"), Base: "nb.sh", Args: []string{"--comment=a b"}},
		"a script there": {Script: "~/nb.sh", Args: []string{"--comment=a b"}},
	} {
		start, err := slurmWatcher(m).TestStart(t.Context(), s, "")
		if err != nil || !start.At.Equal(want) || start.Submitted != "" {
			t.Fatalf("%s: %+v, %v", name, start, err)
		}
		if tested, err := os.ReadFile(m.path("tested")); err != nil || string(tested) != "#!/bin/sh\necho it is mine\n" {
			t.Errorf("%s: tested %q, %v", name, tested, err)
		}
		if words, err := os.ReadFile(m.path("words")); err != nil || !strings.HasSuffix(string(words), "--test-only --parsable --comment=a b\n") {
			t.Errorf("%s: the words %q, %v", name, words, err)
		}
	}
}

func TestAJobThatATestSubmitsIsCancelledAtOnce(t *testing.T) {
	for name, tt := range map[string]struct{ answer, job, cancelled string }{
		"an id":                           {`echo "a word from the site"; echo 4711`, "4711", "4711\n"},
		"a sentence":                      {`echo "Submitted batch job 4712"`, "4712", "4712\n"},
		"a cluster":                       {`echo "4713;north"`, "4713;north", "-M north 4713\n"},
		"a failure":                       {`echo 4714; exit 1`, "4714", "4714\n"},
		"a sentence, then another number": {`echo "Submitted batch job 4715"; echo 12`, "4715", "4715\n"},
		"a sentence with a cluster":       {`echo "Submitted batch job 4716 on cluster gpu"`, "4716;gpu", "-M gpu 4716\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.program(t, "sbatch", tt.answer)
			m.program(t, "scancel", `printf '%s\n' "$*" >>"$HOME/cancelled"`)
			start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}, "")
			if err != nil || start.Submitted != tt.job || !start.Cancelled || !start.At.IsZero() {
				t.Errorf("%+v, %v", start, err)
			}
			if words, err := os.ReadFile(m.path("cancelled")); err != nil || string(words) != tt.cancelled {
				t.Errorf("cancelled %q, %v", words, err)
			}
		})
	}
	t.Run("a cancel that fails", func(t *testing.T) {
		m := newMachine(t)
		m.program(t, "sbatch", "echo 4711")
		m.program(t, "scancel", "exit 1")
		start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}, "")
		if err != nil || start.Submitted != "4711" || start.Cancelled {
			t.Errorf("%+v, %v", start, err)
		}
	})
}

func TestAJobThatATestSubmittedIsToldLaterIfTheAnswerIsLost(t *testing.T) {
	m := newMachine(t)
	m.program(t, "sbatch", `echo run >>"$HOME/runs"; while test ! -f "$HOME/lost"; do sleep 0.01; done
echo "sbatch: a word from the site" >&2; echo 4711`)
	m.program(t, "scancel", `echo "scancel: one too" >&2; printf '%s\n' "$*" >>"$HOME/cancelled"`)
	s := Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}
	if start, err := slurmWatcher(unread{m, t}).TestStart(t.Context(), s, ""); !errors.Is(err, ErrLost) || start.Submitted != "" {
		t.Fatalf("%+v, %v", start, err)
	}
	for range 2 {
		if start, err := slurmWatcher(m).TestStart(t.Context(), s, ""); err != nil || start.Submitted != "4711" || !start.Cancelled {
			t.Errorf("%+v, %v", start, err)
		}
	}
	if runs, cancelled := m.read(t, "runs"), m.read(t, "cancelled"); runs != "run\n" || cancelled != "4711\n" {
		t.Errorf("sbatch: %q, scancel: %q", runs, cancelled)
	}
}

// unread is a machine whose connection is lost once a command runs: nobody reads what it
// prints. The file "lost" says so to the command.
type unread struct {
	*machine
	t *testing.T
}

func (u unread) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Result{}, err
	}
	cmd := u.command(ctx, command)
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
	u.file(u.t, "lost", "")
	_ = cmd.Wait()
	return Result{}, cmp.Or(err, io.ErrUnexpectedEOF)
}

func TestATestSaysThatTheSchedulerWouldRefuseTheJob(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		test   func(Start, error) bool
	}{
		"refused": {`echo "allocation failure: Invalid account or account/partition combination specified" >&2; exit 1`, func(_ Start, err error) bool {
			e, ok := errors.AsType[*api.Error](err)
			return ok && e.Code == api.CodeSubmit && strings.Contains(e.Message, "Invalid account") && e.Hint != siteRuleHint
		}},
		"no controller": {`echo "sbatch: error: Unable to contact slurm controller (connect failure)" >&2; exit 1`, func(_ Start, err error) bool {
			return errors.Is(err, ErrNoAnswer)
		}},
		"other words": {`echo "sbatch: looks fine" >&2`, func(s Start, err error) bool {
			return err == nil && s.At.IsZero() && strings.Contains(s.Words, "looks fine")
		}},
	} {
		m := newMachine(t)
		m.program(t, "sbatch", tt.answer)
		if start, err := slurmWatcher(m).TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}, ""); !tt.test(start, err) {
			t.Errorf("%s: %+v, %v", name, start, err)
		}
	}
}

// counted answers every command with the same text, and counts them.
type counted struct {
	out, errout string
	commands    atomic.Int32
}

func (c *counted) Run(_ context.Context, _ string, stdin []byte) (Result, error) {
	mark, _, _ := strings.Cut(strings.SplitN(string(stdin), "tunctl-", 2)[1], ".begin")
	mark = "tunctl-" + mark
	c.commands.Add(1)
	return Result{
		Stdout: []byte(mark + ".begin\n" + c.out + "\n" + mark + ".end 0\n"),
		Stderr: []byte(mark + ".begin\n" + c.errout + "\n" + mark + ".end\n"),
	}, nil
}

func TestTestsOfJobsKeepTheDistanceOfQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{errout: "sbatch: Job 9 to start at 1794702650 using 1 processors"}
		w := NewWatcher(c, Options{Scheduler: Slurm, Limits: DefaultLimits()})
		begin := time.Now()
		for range 4 {
			if start, err := w.TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n")}, ""); err != nil || start.At.Unix() != 1794702650 {
				t.Fatalf("%+v, %v", start, err)
			}
		}
		if took := time.Since(begin); took != 3*DefaultLimits().QueryMin {
			t.Errorf("four tests took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.TestStart(ctx, Submission{Content: []byte("#!/bin/sh\n")}, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("a person who leaves waits: %v", err)
		}
	})
}

const pbsNodesTable = `                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
n1              free                 1     1      0    64gb/64gb   31/32     0/0     2/2 44
n2              job-busy             1     1      0     0kb/64gb    0/32     0/0     2/2 45
n3              free                 1     1      0    10gb/64gb   16/32     0/0     1/2 46
n4              down                 0     0      0    64gb/64gb   32/32     0/0     2/2 --
`

func TestOneTableOfNodesServesForAllVariantsOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{out: pbsNodesTable}
		w := NewWatcher(c, Options{Scheduler: PBS, Limits: DefaultLimits()})
		begin := time.Now()
		for options, want := range map[string]string{
			"-l select=1:ncpus=16":                 "2 of 4 nodes have 16 CPUs free now",
			"-l select=2:ncpus=8:ngpus=2":          "1 of 4 nodes have 8 CPUs and 2 GPUs free now",
			"-l select=1:ncpus=1:ngpus=1:mem=32gb": "1 of 4 nodes have 1 CPU and 1 GPU free now",
			"-l ncpus=64":                          "0 of 4 nodes have 64 CPUs free now",
		} {
			start, err := w.TestStart(t.Context(), Submission{}, "#!/bin/sh\n#PBS "+options+"\n")
			if err != nil || !strings.Contains(start.Words, want) || !start.At.IsZero() {
				t.Errorf("%s: %+v, %v; want %q", options, start, err, want)
			}
		}
		if n := c.commands.Load(); n != 1 || time.Since(begin) != 0 {
			t.Errorf("%d commands in %s", n, time.Since(begin))
		}
	})
}

func TestAHostWithoutASchedulerStartsAJobAtOnce(t *testing.T) {
	w := NewWatcher(nil, Options{Scheduler: None})
	if start, err := w.TestStart(t.Context(), Submission{}, ""); err != nil || time.Since(start.At) > time.Minute || start.Words == "" {
		t.Errorf("%+v, %v", start, err)
	}
}

func TestGridEngineSaysWhetherAJobCouldStartNow(t *testing.T) {
	for answer, want := range map[string]string{
		`echo "verification: found possible assignment with 1 slots"`:                                                                "could start now",
		`echo "Job 0 cannot run in queue \"a.q\" because of cluster queue" >&2; echo "verification: no suitable queues" >&2; exit 1`: "could not start now",
	} {
		m := newMachine(t)
		m.program(t, "qsub", answer)
		w := NewWatcher(m, Options{Scheduler: GridEngine, Limits: quickLimits()})
		if start, err := w.TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}, ""); err != nil || !strings.Contains(start.Words, want) {
			t.Errorf("%s: %+v, %v", answer, start, err)
		}
	}
	m := newMachine(t)
	m.program(t, "qsub", `for word; do test "$last" != -w || verify=$word; last=$word; done
test "$verify" = p || { echo 11; exit; }
echo "verification: found possible assignment with 1 slots"`)
	own := NewWatcher(m, Options{Scheduler: GridEngine, Limits: quickLimits()})
	if start, err := own.TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x", Args: []string{"-w", "e"}}, ""); err != nil || start.Submitted != "" {
		t.Errorf("with a -w of the person's: %+v, %v", start, err)
	}
	m = newMachine(t)
	m.program(t, "qsub", `echo "Your job 12 (\"nb\") has been submitted"`)
	m.program(t, "qdel", `printf '%s\n' "$*" >"$HOME/cancelled"`)
	w := NewWatcher(m, Options{Scheduler: GridEngine, Limits: quickLimits()})
	start, err := w.TestStart(t.Context(), Submission{Content: []byte("#!/bin/sh\n"), Base: "x"}, "")
	words, _ := os.ReadFile(m.path("cancelled"))
	if err != nil || fmt.Sprint(start) != fmt.Sprint(Start{Submitted: "12", Cancelled: true}) || string(words) != "12\n" {
		t.Errorf("%+v, %v, cancelled %q", start, err, words)
	}
}
