//go:build unix

// Package bustest gives a test a message bus of its own, and says what a test does
// when a program it needs is not installed.
package bustest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/dev/testprogram"
)

const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir=/nonexistent</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// Bus is a private message bus.
type Bus struct {
	Address string
	Stop    func() // ends the bus; once is enough
}

// Start runs a bus until the test ends. Nothing is on it but what joins it.
func Start(t testing.TB) *Bus { return start(t, config, nil) }

// StartSession is Start for a whole desktop: the bus starts the services that are
// installed when they are called, in the environment env.
func StartSession(t testing.TB, env []string) *Bus {
	return start(t, strings.Replace(config, "<policy", "<standard_session_servicedirs/>\n  <policy", 1), env)
}

func start(t testing.TB, config string, env []string) *Bus {
	t.Helper()
	daemon := testprogram.Need(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus") // t.TempDir's long names do not fit a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(conf, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), daemon, "--config-file="+conf, "--nofork", "--nopidfile", "--nosyslog",
		"--print-address=1", "--address=unix:path="+filepath.Join(dir, "bus"))
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	t.Cleanup(stop)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("dbus-daemon told no address: %v", err)
	}
	return &Bus{Address: strings.TrimSpace(address), Stop: stop}
}

// Connect joins the bus until the test ends.
func (b *Bus) Connect(t testing.TB) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
