package tunnel

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"tunctl/tunnel/sshconfig"
)

// reached is the TCP connection that a try makes to a listener by some settings.
func reached(t *testing.T, at string, set func(*sshconfig.Settings)) *net.TCPConn {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := newPool(Options{Limits: PracticeLimits()})
	addr := l.Addr().(*net.TCPAddr)
	try := attemptOf(p.Host("login"), func(a *attempt) { a.settings = sshconfig.Settings{Alias: "login", Hostname: at, Port: addr.Port} })
	set(&try.settings)
	raw, _, err := try.reach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return raw.(*net.TCPConn)
}

func TestBindAddressIsWhereAConnectionComesFrom(t *testing.T) {
	c := reached(t, "127.0.0.1", func(s *sshconfig.Settings) { s.BindAddress = "127.0.0.7" })
	if from := c.LocalAddr().(*net.TCPAddr).IP.String(); from != "127.0.0.7" {
		t.Errorf("it comes from %s", from)
	}
}

func TestIPQoSMarksTheConnection(t *testing.T) {
	for _, tt := range []struct {
		at, ipqos     string
		level, option int
		want          int
	}{
		{"127.0.0.1", "", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"127.0.0.1", "af21 lowdelay", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"127.0.0.1", "af21 throughput", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"127.0.0.1", "af21 reliability", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"127.0.0.1", "lowdelay cs1", unix.IPPROTO_IP, unix.IP_TOS, 0x20},
		{"127.0.0.1", "af21", unix.IPPROTO_IP, unix.IP_TOS, 0x48},
		{"127.0.0.1", "0x20", unix.IPPROTO_IP, unix.IP_TOS, 0x20},
		{"127.0.0.1", "none", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"::1", "cs1", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 0x20},
	} {
		t.Run(tt.at+" "+tt.ipqos, func(t *testing.T) {
			raw, err := reached(t, tt.at, func(s *sshconfig.Settings) { s.IPQoS = tt.ipqos }).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var got int
			var failed error
			if err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), tt.level, tt.option) }); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got != tt.want {
				t.Errorf("IPQoS %q marks it %#x, want %#x", tt.ipqos, got, tt.want)
			}
		})
	}
}

func TestLostBytesAreSentAgainSoon(t *testing.T) {
	raw, err := reached(t, "127.0.0.1", func(*sshconfig.Settings) {}).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(socket uintptr) {
		fd := int(socket)
		if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS); v != 1 {
			t.Errorf("at even distances: %d, %v", v, err)
		}
		const rtoMax = 44
		pause, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, rtoMax)
		if err != nil {
			t.Skip("a kernel before 6.15")
		}
		total, _ := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if pause != 10_000 || total < 900_000 {
			t.Errorf("pauses of %d ms, for %d ms", pause, total)
		}
	})
}
