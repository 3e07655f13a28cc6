package pbs

import (
	"testing"

	"tunctl/internal/dev/jobtest"
)

func TestEveryPatternOfPBSCompiles(*testing.T) { jobtest.CompilePatterns(refusals, waitReasons) }

func TestEveryKnownRefusalOfPBSGetsItsCauseAndRemedy(t *testing.T) {
	jobtest.CheckRefusals(t, refusals, "pbs", "torque")
}
