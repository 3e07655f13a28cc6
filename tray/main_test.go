package tray

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also plays the tray's own process: the library keeps its state in
// package variables and races with itself, so no test runs it in here.
func TestMain(m *testing.M) {
	if os.Getenv("TUNCTL_TEST_TRAY") != "" {
		os.Exit(playTray())
	}
	goleak.VerifyTestMain(m)
}
