package sched

import (
	"errors"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

func TestEveryCommonPatternCompiles(*testing.T) {
	for _, r := range commonRefusals {
		r.Pattern() // panics if it is no pattern
	}
}

func TestRefusalErrorOfAMissingProgram(t *testing.T) {
	e, ok := errors.AsType[*api.Error](RefusalError(remote.Result{Exit: 127, Stderr: []byte("bash: sbatch: command not found\n")}, nil))
	if !ok || e.Code != api.CodeSubmit || !strings.Contains(e.Message, "submit command was not found on the host: bash: sbatch: command not found") || !strings.Contains(e.Hint, "PATH") {
		t.Errorf("%+v", e)
	}
}
