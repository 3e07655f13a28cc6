package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"tunctl/internal/peer"
)

// nearbyPorts is how many ports after a taken one are tried, so that a person
// finds 8889 where 8888 was, before the system picks any.
const nearbyPorts = 20

// localSide is where a forward listens.
type localSide struct {
	listeners []net.Listener
	addr      netip.AddrPort // zero for a unix socket
	path      string         // of a unix socket
	urlHost   string
	note      string
}

func (l *localSide) String() string {
	if l.path != "" {
		return l.path
	}
	return l.addr.String()
}

// onNetwork reports whether other machines can reach it.
func (l *localSide) onNetwork() bool { return l.path == "" && !l.addr.Addr().IsLoopback() }

func (l *localSide) close() error {
	var errs []error
	for _, x := range l.listeners {
		if err := x.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// listenTCP opens the wanted port, else the last one, else one nearby, else any.
func listenTCP(bind string, want, last int) (*localSide, error) {
	var first, err error
	var side *localSide
	for _, port := range candidates(want, last) {
		if side, err = listenPort(bind, port); err == nil {
			break
		}
		if first == nil {
			first = err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on a local port: %w", err)
	}
	if wished := cmp.Or(want, last); wished != 0 && side.port() != wished {
		side.note = fmt.Sprintf("%s; using port %d instead", portTaken(wished, first), side.port())
	}
	return side, nil
}

// portTaken says that a port cannot be used, and by whom it is used where that is known.
func portTaken(port int, err error) string {
	if holder := peer.HolderOf(port); holder != (peer.Holder{}) {
		return fmt.Sprintf("port %d is in use by %v", port, holder)
	}
	return fmt.Sprintf("port %d cannot be used: %v", port, err)
}

func (l *localSide) port() int { return int(l.addr.Port()) }

// candidates lists the ports to try, best first; 0 lets the system choose.
func candidates(want, last int) []int {
	var ports []int
	for _, p := range []int{want, last} {
		if p != 0 && !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	if near := cmp.Or(want, last); near != 0 {
		for p := near + 1; p <= min(near+nearbyPorts, 65535); p++ {
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	return append(ports, 0)
}

// listenPort listens on one port of bind, or of both loopback addresses.
func listenPort(bind string, port int) (*localSide, error) {
	if bind != "" && bind != "localhost" {
		return listenBound(bind, port)
	}
	// A port that the system picked for 127.0.0.1 may be taken on ::1: pick again.
	const picks = 4
	var side *localSide
	for range picks {
		v4, err := listenOn("tcp4", "127.0.0.1", port)
		if err != nil {
			return nil, err
		}
		side = &localSide{listeners: []net.Listener{v4}, addr: addrPort(v4)}
		v6, err := listenOn("tcp6", "::1", side.port())
		if err == nil {
			side.listeners = append(side.listeners, v6)
			side.urlHost = "localhost:" + strconv.Itoa(side.port())
			return side, nil
		}
		// Whoever holds the port on ::1 is what a browser would reach by the
		// name localhost, so the address says which one is ours.
		side.urlHost = side.addr.String()
		if port != 0 || !hasIPv6Loopback() {
			return side, nil
		}
		_ = v4.Close()
	}
	v4, err := listenOn("tcp4", "127.0.0.1", 0)
	if err != nil {
		return nil, err
	}
	addr := addrPort(v4)
	return &localSide{listeners: []net.Listener{v4}, addr: addr, urlHost: addr.String()}, nil
}

// listenBound listens on the one address that a person asked for.
func listenBound(bind string, port int) (*localSide, error) {
	if bind == "*" {
		bind = ""
	}
	l, err := listenOn("tcp", bind, port)
	if err != nil {
		return nil, err
	}
	side := &localSide{listeners: []net.Listener{l}, addr: addrPort(l)}
	side.urlHost = side.addr.String()
	if side.addr.Addr().IsUnspecified() {
		side.urlHost = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), side.addr.Port()).String()
	}
	return side, nil
}

func listenOn(network, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), network, net.JoinHostPort(host, strconv.Itoa(port)))
}

func addrPort(l net.Listener) netip.AddrPort {
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func hasIPv6Loopback() bool {
	l, err := listenOn("tcp6", "::1", 0)
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// listenUnix opens a unix socket that only its owner may use, or everyone if it is
// shared. A socket that nobody serves any more is replaced; a live one, or another kind
// of file, never.
func listenUnix(path string, shared bool) (*localSide, error) {
	if err := clearStaleSocket(path); err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	mode := fs.FileMode(0o600)
	if shared {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	return &localSide{listeners: []net.Listener{l}, path: path}, nil
}

func clearStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket is there")
	}
	d := net.Dialer{Timeout: time.Second}
	if conn, err := d.DialContext(context.Background(), "unix", path); err == nil {
		_ = conn.Close()
		return errors.New("another program uses it")
	}
	return os.Remove(path)
}
