package forward

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
)

// The environment of the client that TestPlayAnotherUser plays.
const (
	playEnv = "TUNNEL_TEST_ADDRESS"
	fromEnv = "TUNNEL_TEST_FROM"
	sayEnv  = "TUNNEL_TEST_SAY"
)

// TestPlayAnotherUser is not a test of its own: it is the client that
// TestAnotherUserIsRefused… runs as somebody else.
func TestPlayAnotherUser(t *testing.T) {
	address := os.Getenv(playEnv)
	if address == "" {
		t.Skip("plays a part in another test")
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(os.Getenv(fromEnv)), 0))}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	say(c, os.Getenv(sayEnv))
	if n, err := c.Read(make([]byte, 1)); n == 0 {
		t.Fatal(err)
	}
}

// connectAs runs a client of a forward as some user, from some address of this machine.
func connectAs(t *testing.T, self string, f *Forward, uid uint32, from, words string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPlayAnotherUser$")
	cmd.Dir = filepath.Dir(self)
	cmd.Env = []string{playEnv + "=" + f.Addr().String(), fromEnv + "=" + from, sayEnv + "=" + words}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd.Run()
}

const nobodyUID = 65534

func TestAnotherUserIsRefusedFromWhateverAddressTheyCome(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can play another user, and CI promises that one is played")
		}
		t.Skip("NOT TRIED: only root can play another user")
	}
	self := copySelf(t)
	for _, kind := range []api.ForwardKind{api.ForwardLocal, api.ForwardDynamic} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %v", kind, shared), func(t *testing.T) {
				f := listen(t, ListenOptions{Kind: kind, Shared: shared})
				f.Open(Target{Dialer: direct, Network: "tcp", Address: far(t, func(c *net.TCPConn) { echo(c) })})
				words := "open sesame"
				if kind == api.ForwardDynamic {
					words = "\x05\x01\x02" // the greeting, which is answered
				}
				strangers := int64(0)
				for _, from := range ownAddresses(t) {
					if err := connectAs(t, self, f, uint32(os.Getuid()), from, words); err != nil {
						t.Errorf("the person was refused from %s: %v", from, err)
					}
					if err := connectAs(t, self, f, nobodyUID, from, words); (err == nil) != shared {
						t.Errorf("a stranger from %s: %v", from, err)
					}
					strangers++
				}
				got := f.Status()
				if want := map[bool]int64{false: strangers}[shared]; got.Refused != want || got.Shared != shared {
					t.Errorf("%d were refused, want %d; status %+v", got.Refused, want, got)
				}
			})
		}
	}
}

// ownAddresses are addresses of this machine from which its listeners on loopback can be
// reached: all of 127.0.0.0/8, and those of its interfaces.
func ownAddresses(t *testing.T) []string {
	t.Helper()
	addresses := []string{"127.0.0.1", "127.0.0.2"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			addresses = append(addresses, ip.IP.String())
		}
	}
	return addresses
}

// copySelf puts the test program where every user may run it.
func copySelf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tunnel")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "client.test")
	if err := testprogram.Write(path, b); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
