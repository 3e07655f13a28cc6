package real

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// inOwnNetwork says to a process of a test that it is in a network of its own.
const inOwnNetwork = "TUNCTL_LAB_NETWORK"

// runInOwnNetwork runs this process again as a child in a network of its own, and
// returns its exit code. It does nothing in that child, nor where no lab can start.
func runInOwnNetwork() (code int, ran bool) {
	if !Wanted() || Check("ssh") != nil {
		return 0, false
	}
	if os.Getenv(inOwnNetwork) != "" {
		// A new network has a loopback that is down.
		if _, err := run("", "ip", "link", "set", "lo", "up"); err != nil {
			fmt.Fprintf(os.Stderr, "real parts: %v\n", err)
			return 1, true
		}
		return 0, false
	}
	runtime.LockOSThread() // the child ends with its parent's thread
	cmd := again()
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), true
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "real parts: run the tests in a network of their own: %v\n", err)
		return 1, true
	}
	return 0, true
}
