package forward

import (
	"testing"

	"tunctl/internal/dev/wait"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longest bounds every wait of these tests on the real clock; none is meant to take it.
const longest = wait.Limit
