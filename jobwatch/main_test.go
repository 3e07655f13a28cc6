package jobwatch

import (
	"testing"

	"go.uber.org/goleak"

	"tunctl/jobwatch/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The names of the schedulers.
const (
	slurmName      = "slurm"
	pbsName        = "pbs"
	gridEngineName = "gridengine"
	noScheduler    = "none"
)

// newScheduler is a scheduler of that name, as a host has it.
func newScheduler(name string) sched.Scheduler { return kindNamed(name).New() }
