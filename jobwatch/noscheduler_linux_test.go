package jobwatch

import (
	"os"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
)

func TestNoScheduler(t *testing.T) {
	order := func(script string) Submission {
		return Submission{Tag: "t", Content: []byte("#!/bin/sh\n" + script + "\n: >\"$HOME/started\"\n"), Base: "serve.sh"}
	}
	isStarted := func(m *jobtest.Machine) bool { _, err := os.Stat(m.File("started")); return err == nil }
	t.Run("starts nothing unless the user has said so", func(t *testing.T) {
		m := jobtest.NewMachine(t)
		hideOthers(t, m)
		w := NewWatcher(m, Options{Host: "gpu1", Limits: jobtest.QuickLimits()})
		for name, err := range map[string]error{"MaySubmit": w.MaySubmit(t.Context()), "Submit": second(w.Submit(t.Context(), order("")))} {
			if !api.HasCode(err, api.CodeNoScheduler) || !strings.Contains(api.HintOf(err), `scheduler = "none" in [host.gpu1]`) {
				t.Errorf("%s: %v (%s)", name, err, api.HintOf(err))
			}
		}
		if files, _ := os.ReadDir(m.File(".tunctl")); len(files) > 0 || isStarted(m) {
			t.Errorf("it has started something: %v", files)
		}
	})
	for _, line := range []string{"#SBATCH --mem=64G", "#PBS -l select=1", "#BSUB -n 4", "#$ -pe smp 4", "#OAR -l nodes=1", "#PJM -L node=1", "#MSUB -l nodes=1", "# @ job_type = serial"} {
		t.Run("never runs a script with "+line, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			w := plainWatcher(m)
			for name, err := range map[string]error{"TestStart": second(w.TestStart(t.Context(), order(line))), "Submit": second(w.Submit(t.Context(), order(line)))} {
				if !api.HasCode(err, api.CodeSubmit) || !strings.Contains(err.Error(), "lines for a scheduler") {
					t.Errorf("%s: %v", name, err)
				}
			}
			if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) > 0 || isStarted(m) {
				t.Errorf("it was started: %v, %v", jobs, err)
			}
		})
	}
	t.Run("runs a script with other comments", func(t *testing.T) {
		m := jobtest.NewMachine(t)
		w := plainWatcher(m)
		if err := second(w.Submit(t.Context(), order("# a #PBS script\n#$HOME"))); err != nil {
			t.Fatal(err)
		}
		await(t, w, "t", api.JobFinished)
	})
}

func second[T any](_ T, err error) error { return err }
