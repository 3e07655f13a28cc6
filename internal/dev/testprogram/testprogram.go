// Package testprogram has the one tunctl that the tests of a package run as the user
// would: the program that TUNCTL_PROGRAM names, which `make test` builds once for all
// packages, or else one that it builds itself. It also writes other programs for tests.
package testprogram

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// variable names the program; Run sets it for this process and its children.
const variable = "TUNCTL_PROGRAM"

// CoverDir names the folder where Go has programs say what of them ran; `make cover`
// sets it.
const CoverDir = "GOCOVERDIR"

// Path is where the program is, while Run runs.
func Path() string { return os.Getenv(variable) }

// Run runs tests, in TestMain, with the program at Path, and returns their exit code.
// Where there is no program yet it is built first, if it is needed. What the program shows
// does not depend on the terminal that the tests are run in.
func Run(needed bool, tests func() int) int {
	for _, err := range []error{os.Setenv("TERM", "xterm"), os.Setenv("NO_COLOR", "")} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if Path() != "" || !needed {
		return tests()
	}
	dir, err := os.MkdirTemp("", "tunctl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	program := filepath.Join(dir, "tunctl"+Suffix())
	if err := Build(context.Background(), program, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(variable, program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// Build builds the program as it is shipped, which `make test` does first: what that
// compiled serves this, too. The stamp, if any, is its version.
func Build(ctx context.Context, out, stamp string) error {
	words := []string{"build", "-trimpath", "-o", out, "-ldflags", "-s -w -X main.stamped=" + stamp}
	if os.Getenv(CoverDir) != "" { // without the main package Go writes nothing down
		words = append(words, "-cover", "-coverpkg=tunctl/cmd/tunctl,tunctl/tunnel,tunctl/jobwatch,tunctl/configs,tunctl/internal/agent")
	}
	words = append(words, "tunctl/cmd/tunctl")
	cmd := exec.CommandContext(ctx, "go", words...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tunctl: %w\n%s", err, text)
	}
	return nil
}

// Suffix is what a program's file name ends with on this system.
func Suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// Write writes a program that a test runs. No process is forked meanwhile: a fork would
// inherit the open file, and the program could not be run before that child closes it
// ("text file busy", golang/go#22315).
func Write(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755) //nolint:gosec // every user may run it
}
