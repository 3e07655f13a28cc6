package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/dev/wait"
	"tunctl/tunnel/openssh"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines left behind. Called with an address, the test
// binary is a ProxyCommand instead; called by an ssh of ours, its askpass; called with
// an ssh_config, a process that has an ssh log in.
func TestMain(m *testing.M) {
	if address := os.Getenv("TUNCTL_TEST_NETCAT"); address != "" {
		netcat(address)
		return
	}
	if socket := os.Getenv(openssh.AskpassSocket); socket != "" {
		answer, err := openssh.Askpass(context.Background(), socket, os.Args[1])
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(answer)
		return
	}
	if config := os.Getenv("TUNCTL_TEST_MASTER"); config != "" {
		masterUser(config)
		return
	}
	goleak.VerifyTestMain(m)
}

// netcat connects standard input and output with an address.
func netcat(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.Close()
	}()
	_, _ = io.Copy(os.Stdout, c)
}

// longest bounds every wait of these tests on the real clock; none is meant to take it.
const longest = wait.Limit

// needRealParts skips a test that runs real servers, which takes long, unless it was
// asked for. TUNCTL_REAL=1 asks for all real parts, and TUNCTL_REAL=some, which is what
// `make test` says to an ordinary user, for those that need no root, as these do.
func needRealParts(t testing.TB) {
	t.Helper()
	if os.Getenv("TUNCTL_REAL") == "" && os.Getenv("CI") != "true" {
		t.Skip("real parts: TUNCTL_REAL is not 1")
	}
}

// simulated is a test on a simulated clock.
func simulated(test func(t *testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// eventually polls until is returns true.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(longest); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen in time")
		}
	}
}

func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func closing(c io.Closer) { _ = c.Close() }
