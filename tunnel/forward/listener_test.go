package forward

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tunctl/internal/dev/testport"
	"tunctl/internal/freeport"
)

// hold listens on a port until the test ends; 0 picks one.
func hold(t *testing.T, host string, port int) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func open(t *testing.T, o ListenOptions) *Forward {
	t.Helper()
	f, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestATakenPortIsNamedWithItsHolderAndTheNextIsUsed(t *testing.T) {
	taken := hold(t, "127.0.0.1", 0)
	f := open(t, ListenOptions{Port: taken})
	if f.Port() == taken || f.Port() == 0 {
		t.Errorf("port %d", f.Port())
	}
	if runtime.GOOS != "linux" {
		t.Skip("who holds a port is asked from other programs here")
	}
	self := filepath.Base(os.Args[0])
	want := fmt.Sprintf("port %d is in use by %.15s (pid %d); using port %d instead", taken, self, os.Getpid(), f.Port())
	if f.Note() != want {
		t.Errorf("note %q, want %q", f.Note(), want)
	}
}

func TestTheWantedPortComesFirstThenTheLastThenOneNearby(t *testing.T) {
	for _, test := range []struct {
		want, last int
		first      []int
		n          int
	}{
		{8888, 0, []int{8888, 8889, 8890}, 22},
		{8888, 8890, []int{8888, 8890, 8889, 8891}, 22},
		{0, 9000, []int{9000, 9001}, 22},
		{65535, 0, []int{65535, 0}, 2},
	} {
		got := candidatePorts(test.want, test.last)
		if !slices.Equal(got[:len(test.first)], test.first) || len(got) != test.n || got[len(got)-1] != 0 {
			t.Errorf("want %d, last %d: %v", test.want, test.last, got)
		}
	}
}

func TestAnyPortIsOneThatNoOutgoingConnectionGets(t *testing.T) {
	ports := candidatePorts(0, 0)
	if len(ports) < 2 || ports[len(ports)-1] != 0 {
		t.Fatalf("%v", ports)
	}
	for _, p := range ports[:len(ports)-1] {
		if p < firstOwnPort || p >= 32768 { // where Linux begins; the others begin at 49152
			t.Errorf("%v", ports)
		}
	}
	if f := open(t, ListenOptions{}); f.Port() < firstOwnPort || f.Port() >= firstOwnPort+ownPorts {
		t.Errorf("port %d", f.Port())
	}
}

func TestTheLastPortIsUsedAgain(t *testing.T) {
	port := testport.Free(t)
	f := open(t, ListenOptions{Port: port})
	_ = f.Close()
	f = open(t, ListenOptions{Last: port})
	if f.Port() != port || f.Note() != "" {
		t.Errorf("port %d, note %q; want %d", f.Port(), f.Note(), port)
	}
}

func TestAWantedPortIsTakenBackWhenItIsFree(t *testing.T) {
	want := testport.Free(t)
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(want)))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, ListenOptions{Port: want})
	_ = f.Close()
	_ = l.Close()
	if again := open(t, ListenOptions{Port: want, Last: f.Port()}); again.Port() != want || again.Note() != "" {
		t.Errorf("port %d, note %q; want %d", again.Port(), again.Note(), want)
	}
}

func TestBothLoopbackAddressesLeadToTheForward(t *testing.T) {
	if !freeport.HasIPv6(t.Context()) {
		t.Skip("no ::1 here")
	}
	f := open(t, ListenOptions{})
	if want := fmt.Sprintf("localhost:%d", f.Port()); f.URLHost() != want {
		t.Errorf("URL host %q", f.URLHost())
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(f.Port())))
		if err != nil {
			t.Error(err)
			continue
		}
		_ = c.Close()
	}
}

func TestAStrangerOnTheOtherLoopbackAddressIsNotInTheURL(t *testing.T) {
	if !freeport.HasIPv6(t.Context()) {
		t.Skip("no ::1 here")
	}
	port := hold(t, "::1", 0)
	f := open(t, ListenOptions{Port: port})
	if f.Port() != port {
		t.Skipf("port %d of 127.0.0.1 is taken too", port)
	}
	if want := fmt.Sprintf("127.0.0.1:%d", port); f.URLHost() != want {
		t.Errorf("URL host %q leads to a stranger", f.URLHost())
	}
}

func TestOnlyAnAskedForAddressIsBoundBeyondLoopback(t *testing.T) {
	if f := open(t, ListenOptions{}); !f.Addr().Addr().IsLoopback() {
		t.Errorf("listens on %v", f.Addr())
	}
	f := open(t, ListenOptions{Bind: "0.0.0.0"})
	if !f.Addr().Addr().IsUnspecified() || !strings.HasPrefix(f.URLHost(), "127.0.0.1:") {
		t.Errorf("listens on %v, URL host %q", f.Addr(), f.URLHost())
	}
	if _, err := Listen(ListenOptions{Bind: "192.0.2.1"}); err == nil {
		t.Error("an address that is not ours was bound")
	}
}

func TestAStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	live := open(t, ListenOptions{UnixPath: path})
	if live.URLHost() != "" || live.Port() != 0 || live.Addr().IsValid() {
		t.Errorf("a socket with an address: %v", live.Addr())
	}
	if _, err := Listen(ListenOptions{UnixPath: path}); err == nil {
		t.Error("a live socket was stolen")
	}
	file := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(ListenOptions{UnixPath: file}); err == nil {
		t.Error("a file was replaced")
	}
}

func TestAForwardIsSharedByAnAddressOnTheNetworkOrByWord(t *testing.T) {
	dir, err := os.MkdirTemp("", "tunnel") // a test's own folder has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, c := range []struct {
		o    ListenOptions
		want bool
		mode os.FileMode // of a unix socket
	}{
		{ListenOptions{}, false, 0},
		{ListenOptions{Bind: "localhost"}, false, 0},
		{ListenOptions{Bind: "127.0.0.2"}, false, 0},
		{ListenOptions{Bind: "*"}, true, 0},
		{ListenOptions{Bind: "0.0.0.0"}, true, 0},
		{ListenOptions{Shared: true}, true, 0},
		{ListenOptions{UnixPath: filepath.Join(dir, "own")}, false, 0o600},
		{ListenOptions{UnixPath: filepath.Join(dir, "shared"), Shared: true}, true, 0o666},
	} {
		if runtime.GOOS != "linux" && c.o.Bind == "127.0.0.2" {
			continue // other systems have one loopback address
		}
		f := open(t, c.o)
		if got := f.Status().Shared; got != c.want {
			t.Errorf("%d: %+v: shared %v", i, c.o, got)
		}
		if c.mode == 0 || runtime.GOOS == "windows" {
			continue
		}
		if info, err := os.Stat(c.o.UnixPath); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%d: %v, %v", i, info, err)
		}
	}
}
