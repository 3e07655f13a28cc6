package jobwatch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/jobtest"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// hideOthers leaves only the machine's own programs on the login shell's PATH, since the
// computer that runs the test may have a scheduler.
func hideOthers(t *testing.T, m *jobtest.Machine) {
	t.Helper()
	for _, name := range []string{"cat", "id", "uname", "timeout", "sh"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // macOS has no timeout
		}
		if err := os.Symlink(path, filepath.Join(m.Bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.Write(t, ".profile", "PATH="+posixsh.Quote(m.Bin)+"\n")
}

func TestOfTwoSchedulersTheOneThatAnswersIsTaken(t *testing.T) {
	const (
		answers = `exit 0`
		silent  = `echo "cannot connect to server old (errno=15010)" >&2; exit 1`
		never   = `echo "must not be asked" >>"$HOME/asked"; exit 1`
	)
	for name, c := range map[string]struct {
		squeue, qselect string // "": not installed
		want            string
	}{
		"both answer":      {answers, answers, slurmName},
		"only PBS answers": {silent, answers, pbsName},
		"only Slurm does":  {answers, silent, slurmName},
		"Slurm alone":      {never, "", slurmName},
		"PBS alone":        {"", never, pbsName},
		"neither is there": {"", "", noScheduler},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := jobtest.NewMachine(t)
			hideOthers(t, m)
			if c.squeue != "" {
				m.Program(t, "squeue", c.squeue)
				m.Program(t, "sbatch", never)
			}
			if c.qselect != "" {
				m.Program(t, "qselect", c.qselect)
				m.Program(t, "qstat", never)
				m.Program(t, "qsub", never)
			}
			w := NewWatcher(m, Options{Limits: jobtest.QuickLimits()})
			if got, err := w.Scheduler(t.Context()); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if _, err := os.Stat(m.File("asked")); err == nil {
				t.Error("a scheduler was asked although there was no choice")
			}
		})
	}
}

func TestSchedulersThatDoNotAnswerAreAskedAgain(t *testing.T) {
	m := jobtest.NewMachine(t)
	hideOthers(t, m)
	for _, name := range []string{"squeue", "sbatch", "qselect", "qstat", "qsub"} {
		m.Program(t, name, "exit 1")
	}
	w := NewWatcher(m, Options{Limits: jobtest.QuickLimits()})
	if got, err := w.Scheduler(t.Context()); !errors.Is(err, remote.ErrNoAnswer) || !strings.Contains(err.Error(), "(slurm pbs)") {
		t.Errorf("%q, %v; want no answer", got, err)
	}
	m.Program(t, "qselect", "exit 0")
	if got, err := w.Scheduler(t.Context()); err != nil || got != pbsName {
		t.Errorf("%q, %v; want %q", got, err, pbsName)
	}
}

func TestTheSchedulerIsFoundUnderEveryLoginShellAndDespiteItsStartUpFiles(t *testing.T) {
	user, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Skip("needs id")
	}
	for name, words := range jobtest.LoginShells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := jobtest.NewMachine(t)
			m.Shell = words
			hideOthers(t, m)
			m.Write(t, ".profile", `echo slurm; echo "module loaded" >&2
set -- slurm pbs; s=slurm k=slurm
has() { true; }
set -u; set -e; set -C; IFS=s
PATH=":/no such/folder:"`+posixsh.Quote(m.Bin)+":\n")
			for program, text := range map[string]string{
				"squeue": "echo 7; exit 1", "sbatch": "exit 1", "qselect": "echo 8.old; cat", "qstat": "exit 1", "qsub": "exit 1",
			} {
				m.Program(t, program, text)
			}
			w := NewWatcher(m, Options{Limits: jobtest.QuickLimits()})
			if got, err := w.Scheduler(t.Context()); err != nil || got != pbsName {
				t.Errorf("%q, %v; want %q", got, err, pbsName)
			}
			if got, err := w.Login(t.Context()); err != nil || got+"\n" != string(user) {
				t.Errorf("user %q, %v; want %q", got, err, user)
			}
		})
	}
}

func TestGridEngineIsNotTakenForPBS(t *testing.T) {
	for name, c := range map[string]struct{ profile, program string }{
		"by its variable":               {"export SGE_ROOT=/opt/sge\n", ""},
		"by its programs, as on Debian": {"", "qconf"},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			hideOthers(t, m)
			m.Write(t, ".profile", m.Read(t, ".profile")+c.profile)
			for _, name := range []string{"qselect", "qstat", "qsub", c.program} {
				if name != "" {
					m.Program(t, name, "exit 0")
				}
			}
			if got, err := NewWatcher(m, Options{Limits: jobtest.QuickLimits()}).Scheduler(t.Context()); err != nil || got != gridEngineName {
				t.Errorf("%q, %v; want %q", got, err, gridEngineName)
			}
		})
	}
}
