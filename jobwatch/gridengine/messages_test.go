package gridengine

import (
	"testing"

	"tunctl/internal/dev/jobtest"
)

func TestEveryPatternOfGridEngineCompiles(*testing.T) { jobtest.CompilePatterns(refusals, waitReasons) }

func TestEveryKnownRefusalOfGridEngineGetsItsCauseAndRemedy(t *testing.T) {
	jobtest.CheckRefusals(t, refusals, "gridengine")
}
