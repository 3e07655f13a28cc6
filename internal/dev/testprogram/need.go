package testprogram

import (
	"os"
	"os/exec"
	"testing"
)

// Need returns the path of a program that a test runs. Without it the test ends as by [Missing].
func Need(t testing.TB, name string) (path string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name)
	}
	return path
}

// Missing ends a test that needs something which is not installed: with a skip, but in CI and
// where all real parts were asked for with a failure.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("TUNCTL_REAL") == "1" {
		t.Fatalf("%s is not installed, and CI or TUNCTL_REAL says that it must be", what)
	}
	t.Skip(what + " is not installed")
}
