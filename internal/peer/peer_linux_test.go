package peer

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
)

func TestProcSockets(t *testing.T) {
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
		{netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[::1]:50000"), "01", 0, "0"},
	}
	got := append(parseProcSockets(table, 8888), parseProcSockets(table, 80)...)
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v", got)
	}
}

func binaryIsBig() bool {
	a, _ := parseProcAddr("0100007F:0000")
	return a.Addr() != netip.MustParseAddr("127.0.0.1")
}

func TestCheckOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", l.Addr().String())
		must.Do(t, err)
		accepted, err := l.Accept()
		must.Do(t, err)
		if err := CheckConn(accepted); err != nil {
			t.Errorf("from %s: %v", from, err)
		}
		theirs, ours := c.LocalAddr().(*net.TCPAddr).AddrPort(), l.Addr().(*net.TCPAddr).AddrPort()
		asked, err := querySocket(unmapped(theirs), unmapped(ours))
		if err != nil {
			t.Errorf("from %s: the kernel was asked in vain: %v", from, err)
		}
		sockets, err := procSockets(int(theirs.Port()))
		if err != nil {
			t.Error(err)
		}
		for _, s := range sockets {
			if s.local == unmapped(theirs) && s.remote == unmapped(ours) && (s.uid != asked.uid || s.inode != asked.inode) {
				t.Errorf("from %s: the kernel says %+v, its table %+v", from, asked, s)
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if err := CheckConn(accepted); err != nil {
			t.Errorf("from %s, half closed: %v", from, err)
		}
		_ = c.Close()
		_ = accepted.Close()
	}
}

func TestCheckRequest(t *testing.T) {
	if CheckRequest(httptest.NewRequest(http.MethodGet, "/", nil)) == nil {
		t.Error("a request that came over no connection is the user's own")
	}
}

func TestCheckListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	ours := l.Addr().(*net.TCPAddr).AddrPort()
	if s, err := querySocket(ours, netip.MustParseAddrPort("127.0.0.1:1")); err == nil {
		t.Errorf("got %+v", s)
	}
	if Check(netip.MustParseAddrPort("127.0.0.1:1"), ours) == nil && !inWSL() {
		t.Error("a connection that is not there is ours")
	}
}

func TestSocketOwner(t *testing.T) {
	for _, c := range []struct {
		what string
		s    procSocket
		uid  int
		want bool
	}{
		{"the person's", procSocket{uid: 1000, inode: "7"}, 1000, true},
		{"root's", procSocket{uid: 0, inode: "7"}, 1000, true},
		{"another's", procSocket{uid: 1001, inode: "7"}, 1000, false},
		{"another's, for root", procSocket{uid: 1001, inode: "7"}, 0, false},
		{"given up by the person", procSocket{uid: 1000, inode: "0"}, 1000, true},
		{"given up by somebody, on an older kernel", procSocket{uid: 0, inode: "0"}, 1000, false},
		{"given up by somebody, for root", procSocket{uid: 0, inode: "0"}, 0, false},
	} {
		if got := c.s.ownedBy(c.uid); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestHolderOf(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	if got, want := HolderOf(l.Addr().(*net.TCPAddr).Port), fmt.Sprintf("(pid %d)", os.Getpid()); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want a name and %s", got, want)
	}
}

func BenchmarkCheck(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	for b.Loop() {
		if err := CheckConn(accepted); err != nil {
			b.Fatal(err)
		}
	}
}
