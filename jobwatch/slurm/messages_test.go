package slurm

import (
	"regexp"
	"strings"
	"testing"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/sched"
)

func TestASubmitLimitIsNotTakenForATimeLimit(t *testing.T) {
	const policy = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n"
	for _, reason := range []string{"", "AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpCPUMinutesLimit", "Reached jobs per hour limit", "SomethingNewLimit"} {
		text := policy
		if reason != "" {
			text = "sbatch: error: " + reason + "\n" + policy
		}
		if got := jobtest.Refused(t, refusals, text); strings.Contains(got.Hint, "--time") {
			t.Errorf("%s: %q", reason, got.Hint)
		}
	}
}

func TestASitesOwnTextIsPassedOnWithAHint(t *testing.T) {
	got := jobtest.Refused(t, refusals, "sbatch: error: Please be kind to your neighbours\nsbatch: error: Batch job submission failed: Unspecified error\n")
	if !strings.Contains(got.Message, "Please be kind to your neighbours") || got.Hint != sched.SiteRuleHint {
		t.Errorf("%q, hint %q", got.Message, got.Hint)
	}
}

func TestEveryPatternOfSlurmCompiles(*testing.T) {
	for _, pattern := range []func() *regexp.Regexp{tailKey, freeKey, firstFree} {
		pattern() // panics if it is no pattern
	}
	jobtest.CompilePatterns(refusals)
}

func TestEveryKnownRefusalOfSlurmGetsItsCauseAndRemedy(t *testing.T) {
	jobtest.CheckRefusals(t, refusals, "slurm")
}
