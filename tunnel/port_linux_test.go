package tunnel

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestProcSocketsAreRead(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:0050 00000000000000000000000001000000:C350 01 00000000:00000000 00:00000000 00000000     0        0 0 1
   2: garbage
`
	if binaryIsBig() {
		t.Skip("the table is a little-endian machine's")
	}
	want := []procSocket{
		{netip.MustParseAddrPort("127.0.0.1:8888"), netip.MustParseAddrPort("0.0.0.0:0"), procListen, 1000, "4242"},
		{netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[::1]:50000"), procEstablished, 0, "0"},
	}
	var got []procSocket
	for s := range parseProcSockets(strings.NewReader(table)) {
		got = append(got, s)
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v", got)
	}
}

func binaryIsBig() bool {
	a, _ := parseProcAddr("0100007F:0000")
	return a.Addr() != netip.MustParseAddr("127.0.0.1")
}

const playEnv = "TUNNEL_TEST_ADDRESS"

// TestPlayAnotherUser is not a test of its own: it is the client that
// TestAnotherUserIsRefused… runs as somebody else.
func TestPlayAnotherUser(t *testing.T) {
	address := os.Getenv(playEnv)
	if address == "" {
		t.Skip("plays a part in another test")
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	say(c, "open sesame")
	if n, err := c.Read(make([]byte, 1)); n == 0 {
		t.Fatal(err)
	}
}

func TestAnotherUserIsRefusedWhereNothingElseAsksWhoTheyAre(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can play another user")
	}
	address := far(t, func(c *net.TCPConn) { echo(c) })
	f := listen(t, ListenOptions{})
	self := copySelf(t)
	visit := func(uid uint32) error {
		cmd := exec.Command(self, "-test.run=^TestPlayAnotherUser$")
		cmd.Dir = filepath.Dir(self)
		cmd.Env = []string{playEnv + "=" + f.Addr().String()}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return cmd.Run()
	}
	const nobodyUID = 65534
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address, Private: true})
	if err := visit(uint32(os.Getuid())); err != nil {
		t.Errorf("the person was refused: %v", err)
	}
	if err := visit(nobodyUID); err == nil {
		t.Error("a stranger was let in")
	}
	if got := f.Status().Refused; got != 1 {
		t.Errorf("refused %d", got)
	}
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})
	if err := visit(nobodyUID); err != nil {
		t.Errorf("refused where the endpoint asks for itself: %v", err)
	}
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
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
