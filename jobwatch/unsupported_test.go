package jobwatch

import (
	"errors"
	"os"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
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
