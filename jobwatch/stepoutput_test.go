package jobwatch

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestJobsOfAHostTakePoliteTurnsAtBeingHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := NewWatcher(c, Options{Scheduler: Slurm})
		var all sync.WaitGroup
		for _, id := range []string{"1", "2", "3"} {
			all.Go(func() {
				if _, err := w.StepOutput(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(c.asked) != 3 {
			t.Fatalf("%d turns", len(c.asked))
		}
		for i := 1; i < len(c.asked); i++ {
			if gap := c.asked[i].Sub(c.asked[i-1]); gap < time.Minute {
				t.Errorf("two turns %s apart", gap)
			}
		}
	})
}

func TestOnlyTheNewestStepsAreHeardAndTheirInputIsNotEnded(t *testing.T) {
	t.Parallel() // it takes as long as they are listened to
	m := newMachine(t)
	m.program(t, "squeue", `printf '%s\n' 7.extern 7.batch 7.0 7.1 7.2; printf '%s\n' "$*" >"$HOME/words"`)
	m.program(t, "sattach", `echo "step $1 says hello"
case $1 in 7.1) head -c 1000000 /dev/zero | tr '\0' x ;; esac
while read -r line; do :; done
echo "$1" >>"$HOME/ended"`)
	w := slurmWatcher(m)
	out, err := w.StepOutput(t.Context(), "7'; touch injected; '")
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > stepBytes+1 || !strings.Contains(string(out), "step 7.1 says hello\n") || strings.Contains(string(out), "7.0") {
		t.Errorf("%d bytes, beginning %q", len(out), clip(string(out), 80))
	}
	if words := m.read(t, "words"); !strings.Contains(words, "-j 7'; touch injected; '") {
		t.Errorf("squeue was asked %q", words)
	}
	for _, name := range []string{"ended", "injected"} {
		if _, err := os.Stat(m.path(name)); err == nil {
			t.Errorf("there is a file %q: %s", name, m.read(t, name))
		}
	}
}

func TestASchedulerThatShowsNoOutputSaysSo(t *testing.T) {
	if _, err := NewWatcher(newMachine(t), Options{Scheduler: PBS}).StepOutput(t.Context(), "7"); !errors.Is(err, ErrNoSteps) {
		t.Errorf("PBS: %v", err)
	}
	m := newMachine(t)
	m.program(t, "cat", `exec /bin/cat "$@"`)
	m.file(t, ".profile", "PATH="+quote(m.bin)+"\n") // no sattach there
	if _, err := slurmWatcher(m).StepOutput(t.Context(), "7"); !errors.Is(err, ErrNoSteps) {
		t.Errorf("Slurm without sattach: %v", err)
	}
}
