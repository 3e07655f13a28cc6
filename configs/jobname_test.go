package configs

import "testing"

func TestAJobNameIsOneThatPBSKeepsWhole(t *testing.T) {
	for name, want := range map[string]string{
		"jupyter":              "jupyter",
		"jupyter-aspire2":      "jupyter-aspire2",
		"jupyter-aspire2a":     "jupyter-aspire2",
		"jupyter-aspire2a-2":   "jupyter-aspir-2",
		"jupyter-aspire2a-17":  "jupyter-aspi-17",
		"2nd-notebook":         "j2nd-notebook",
		"run-1234567890123456": "run-12345678901",
	} {
		site := Site{Scheduler: "pbs"}
		if got := site.JobName(name); got != want || site.JobName(got) != got {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if got := (&Site{Scheduler: "slurm"}).JobName(name); got != name {
			t.Errorf("Slurm cuts nothing: %q", got)
		}
	}
}
