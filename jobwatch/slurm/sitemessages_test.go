package slurm

import (
	"strings"
	"testing"

	"tunctl/internal/dev/jobtest"
)

// TestSiteRefusal has messages of submit filters in the forms that sites write them: what to do comes first, and the hint is about
// that.
func TestSiteRefusal(t *testing.T) {
	const failed = "sbatch: error: Batch job submission failed: Unspecified error\n"
	for name, c := range map[string]struct{ text, first, hint string }{
		"a missing time": {
			"sbatch: error: ==========\nsbatch: error: *** JOB REJECTED ***\nsbatch: error: You must specify a wall time, e.g. -t 1:00:00\nsbatch: error: ==========\n" + failed,
			"You must specify a wall time", "a time limit: set --time",
		},
		"a missing QoS": {failed + "sbatch: error: Please provide a valid QOS with this partition.\n", "Please provide a valid QOS", "set --qos"},
		"a missing number of GPUs": {
			"sbatch: error: Jobs here need to request at least one GPU (--gres)\n" + failed, "Jobs here need to request at least one GPU", "--gres=gpu:1",
		},
		"a missing account": {"sbatch: error: ERROR! you did not specify which account to charge\n" + failed, "ERROR! you did not specify", "set --account"},
		"listed accounts": {
			"sbatch: error: You have several allocations.\nsbatch: error: Please use one of the following accounts: lab-a, lab-b_gpu\n" + failed,
			"Please use one of the following accounts", "--with account=lab-a",
		},
		"scratch":           {"sbatch: error: Jobs cannot start in /home, please try in scratch\n" + failed, "Jobs cannot start in /home", "workdir"},
		"a whole node":      {"sbatch: error: This partition is for large jobs: please request a whole node (64 cores)\n" + failed, "This partition is for large jobs", "whole nodes"},
		"no batch jobs":     {"sbatch: error: Batch jobs cannot use the interactive_* partitions\n" + failed, "Batch jobs cannot use", "takes no batch jobs"},
		"interactive only":  {"sbatch: error: partition jupyter is reserved for interactive sessions\n" + failed, "partition jupyter", "takes no batch jobs"},
		"only punctuation":  {"sbatch: error: -----\nsbatch: error: \nsbatch: error: Please be kind\n" + failed, "Please be kind", "the site requires this"},
		"Slurm's own words": {"sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)\n", "Batch job submission failed", "--time is missing, or exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			got := jobtest.Refused(t, refusals, c.text)
			if !strings.HasPrefix(got.Message, "the scheduler did not accept the job: "+c.first) || strings.Contains(got.Message, "***") || strings.Contains(got.Message, "===") {
				t.Errorf("message %q", got.Message)
			}
			if !strings.Contains(got.Hint, c.hint) {
				t.Errorf("hint %q lacks %q", got.Hint, c.hint)
			}
		})
	}
}
