package jobwatch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/posixsh"
)

func TestASchedulerThatIsNotSupportedIsNamedWithWhatWorks(t *testing.T) {
	const never = `echo "must not run" >>"$HOME/asked"; exit 1`
	for name, c := range map[string]struct {
		programs map[string]string
		want     string // "": jobs are plain processes
	}{
		"LSF":                      {map[string]string{"bsub": never, "bjobs": never}, "LSF (it has bsub)"},
		"Fugaku":                   {map[string]string{"pjsub": never, "pjstat": never}, "Fujitsu PJM (it has pjsub)"},
		"HTCondor":                 {map[string]string{"condor_submit": never, "condor_q": never}, "HTCondor (it has condor_submit)"},
		"Flux":                     {map[string]string{"flux": `echo "commands: 0.61.0"; echo "libflux-core: 0.61.0"`}, "Flux (it has flux)"},
		"Flux CD":                  {map[string]string{"flux": `echo "flux: v2.3.0"`}, ""},
		"Kubernetes":               {map[string]string{"kubectl": `test "$*" = "config current-context" && echo prod`}, "Kubernetes (it has kubectl)"},
		"kubectl without clusters": {map[string]string{"kubectl": `echo "error: current-context is not set" >&2; exit 1`}, ""},
		"OAR":                      {map[string]string{"oarsub": never, "oarstat": never}, "OAR (it has oarsub)"},
		"LoadLeveler":              {map[string]string{"llsubmit": never, "llq": never}, "LoadLeveler (it has llsubmit)"},
		"Cobalt":                   {map[string]string{"qsub": never, "cqwait": never, "partlist": never}, "Cobalt (it has qsub)"},
		"Moab alone":               {map[string]string{"msub": never, "showq": never}, "Moab (it has msub)"},
		"half of LSF":              {map[string]string{"bsub": never}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := jobtest.NewMachine(t)
			hideOthers(t, m)
			for program, text := range c.programs {
				m.Program(t, program, text)
			}
			got, err := NewWatcher(m, Options{Host: "dtu", Limits: jobtest.QuickLimits()}).Scheduler(t.Context())
			if _, err := os.Stat(m.File("asked")); err == nil {
				t.Error("a job command was run to recognize the scheduler")
			}
			if c.want == "" {
				if err != nil || got != noScheduler {
					t.Errorf("%q, %v; want %q", got, err, noScheduler)
				}
				return
			}
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Message != "dtu uses "+c.want+": tunctl cannot submit or watch jobs there yet" {
				t.Fatalf("%q, %v", got, err)
			}
			for _, works := range []string{"`tunctl attach dtu NODE:PORT`", "`tunctl forward dtu`", "`tunctl ssh dtu`", "`tunctl cp`", `scheduler = "none" in [host.dtu]`} {
				if !strings.Contains(e.Hint, works) {
					t.Errorf("the hint lacks %s: %s", works, e.Hint)
				}
			}
		})
	}
}

func TestASupportedSchedulerCountsMoreThanAnotherOnes(t *testing.T) {
	m := jobtest.NewMachine(t)
	hideOthers(t, m)
	for _, name := range []string{"sbatch", "squeue", "bsub", "bjobs"} { // Slurm's own wrappers for people used to LSF
		m.Program(t, name, "exit 0")
	}
	if got, err := NewWatcher(m, Options{Limits: jobtest.QuickLimits()}).Scheduler(t.Context()); err != nil || got != slurmName {
		t.Errorf("%q, %v; want %q", got, err, slurmName)
	}
}

// TestSchedulerElsewhere has a Slurm that bash does not find by itself.
func TestSchedulerElsewhere(t *testing.T) {
	slurm := func(t *testing.T) *jobtest.Machine {
		t.Helper()
		m := jobtest.NewMachine(t)
		hideOthers(t, m)
		for _, name := range []string{"sed", "mkdir", "head", "date", "chmod", "rm", "find", "grep"} {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(m.Bin, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(m.Bin, "slurm"), 0o755); err != nil {
			t.Fatal(err)
		}
		m.Program(t, "slurm/sbatch", "exit 0")
		m.Program(t, "slurm/squeue", "exit 0")
		return m
	}
	found := func(t *testing.T, m *jobtest.Machine) {
		t.Helper()
		w := NewWatcher(m, Options{Host: "lab", Limits: jobtest.QuickLimits()})
		if got, err := w.Scheduler(t.Context()); err != nil || got != slurmName {
			t.Fatalf("%q, %v; want %q", got, err, slurmName)
		}
		if _, err := w.Jobs(t.Context()); err != nil { // squeue is found by every later command
			t.Error(err)
		}
	}
	t.Run("behind a module", func(t *testing.T) {
		m := slurm(t)
		m.Write(t, ".profile", m.Read(t, ".profile")+"module() { echo \"$*\" >>\"$HOME/modules\"; echo noise; test \"$*\" = 'load slurm' && PATH=$PATH:"+posixsh.Quote(m.Bin+"/slurm")+"; }\n")
		found(t, m)
	})
	t.Run("in the start-up file of the user's own shell", func(t *testing.T) {
		m := slurm(t)
		m.Program(t, "zsh", `test "$*" = -l || exit 1; PATH="$PATH:${0%/*}/slurm"; while read -r program name; do test "$program" = which && echo welcome && command -v "$name"; done`)
		m.Write(t, ".profile", m.Read(t, ".profile")+"SHELL="+posixsh.Quote(m.Bin+"/zsh")+"\n")
		found(t, m)
	})
}
