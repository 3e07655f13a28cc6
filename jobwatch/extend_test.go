package jobwatch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestExtendSetsTheWholeLimit(t *testing.T) {
	tests := []struct {
		scheduler, program, id string
		want                   string
	}{
		{Slurm, "scontrol", "54", "update JobId=54 TimeLimit=26:30:00"},
		{PBS, "qalter", "54.pbs101", "-l walltime=26:30:00 54.pbs101"},
	}
	for _, tt := range tests {
		m := newMachine(t)
		m.program(t, tt.program, `printf '%s\n' "$*" >>"$HOME/asked"`)
		w := NewWatcher(m, Options{Scheduler: tt.scheduler, Limits: quickLimits()})
		if err := w.Extend(t.Context(), tt.id, 26*time.Hour+30*time.Minute); err != nil {
			t.Errorf("%s: %v", tt.scheduler, err)
		}
		if got := strings.TrimSpace(m.read(t, "asked")); got != tt.want {
			t.Errorf("%s was asked %q, want %q", tt.scheduler, got, tt.want)
		}
	}
}

func TestARefusedExtensionKeepsTheSchedulersWords(t *testing.T) {
	tests := []struct {
		name, scheduler, program, text string
		want                           string
		code                           api.Code
	}{
		{
			"Slurm lets only operators", Slurm, "scontrol", `echo "Access/permission denied for job 54" >&2; exit 1`,
			"Access/permission denied", api.CodeFailed,
		},
		{
			"Slurm's partition has a limit", Slurm, "scontrol", `echo "slurm_update error: Requested time limit is invalid (missing or exceeds some limit)" >&2; exit 1`,
			"exceeds some limit", api.CodeFailed,
		},
		{"Slurm's job is over", Slurm, "scontrol", `echo "Invalid job id specified for job 54" >&2; exit 1`, "no longer running", api.CodeJobEnded},
		{"PBS lets only managers", PBS, "qalter", `echo "qalter: Unauthorized Request  54.pbs101" >&2; exit 159`, "Unauthorized Request", api.CodeFailed},
		{"PBS's job is over", PBS, "qalter", `echo "qalter: Job has finished 54.pbs101" >&2; exit 35`, "no longer running", api.CodeJobEnded},
		{"no scheduler", None, "true", ``, "no time limit", api.CodeFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.program(t, tt.program, tt.text)
			w := NewWatcher(m, Options{Scheduler: tt.scheduler, Limits: quickLimits()})
			err := w.Extend(t.Context(), "54", time.Hour)
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
				t.Errorf("err = %#v", err)
			}
		})
	}
}

func TestAnExtensionWithoutAnAnswerIsNoRefusal(t *testing.T) {
	m := newMachine(t)
	m.program(t, "scontrol", `echo "slurm_update error: Unable to contact slurm controller (connect failure)" >&2; exit 1`)
	err := slurmWatcher(m).Extend(t.Context(), "54", time.Hour)
	if !errors.Is(err, ErrNoAnswer) {
		t.Errorf("err = %v, want ErrNoAnswer", err)
	}
}
