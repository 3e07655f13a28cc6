package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"tunctl/internal/freeport"
	"tunctl/internal/peer"
)

// nearbyPorts is how many ports after one in use are tried before the system picks any:
// the user expects 8889 after 8888.
const nearbyPorts = 20

// A forward that may listen on any port tries a few of these first. Systems give higher
// ports to the connections of all programs, so that one of those may be in use when the
// forward is opened again, and its address would change. 27000 to 27999 are the ports of dashboards.
const (
	firstOwnPort = 28100
	ownPorts     = 1900
	ownPortTries = 5
)

// localListener is where a forward listens: on a port, usually of both loopback
// addresses, or on a unix socket.
type localListener struct {
	listeners []net.Listener
	addr      netip.AddrPort // zero for a unix socket
	path      string         // of a unix socket
	urlHost   string
	note      string
}

func (l *localListener) String() string {
	if l.path != "" {
		return l.path
	}
	return l.addr.String()
}

// onNetwork reports whether other machines can connect.
func (l *localListener) onNetwork() bool { return l.path == "" && !l.addr.Addr().IsLoopback() }

func (l *localListener) close() error {
	var errs []error
	for _, x := range l.listeners {
		if err := freeport.Close(x); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// listenTCP listens on the wanted port, else the last one, else one nearby, else any.
func listenTCP(bind string, want, last int) (*localListener, error) {
	var first, err error
	var local *localListener
	for _, port := range candidatePorts(want, last) {
		if local, err = listenPort(bind, port); err == nil {
			break
		}
		first = cmp.Or(first, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on a local port: %w", err)
	}
	if wanted := cmp.Or(want, last); wanted != 0 && local.port() != wanted {
		local.note = fmt.Sprintf("%s; using port %d instead", portInUse(wanted, first), local.port())
	}
	return local, nil
}

// portInUse says that a port cannot be used, and by which program it is or how to find that
// out.
func portInUse(port int, err error) string {
	if holder := peer.HolderOf(port); holder != "" {
		return fmt.Sprintf("port %d is in use by %s", port, holder)
	}
	return fmt.Sprintf("port %d cannot be used: %v%s", port, err, peer.HolderHint(port))
}

func (l *localListener) port() int { return int(l.addr.Port()) }

// candidatePorts lists the ports to try, best first; with 0 the system picks one.
func candidatePorts(want, last int) []int {
	var ports []int
	add := func(p int) {
		if p != 0 && !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	add(want)
	add(last)
	if near := cmp.Or(want, last); near != 0 {
		for p := near + 1; p <= min(near+nearbyPorts, 65535); p++ {
			add(p)
		}
	} else {
		for range ownPortTries {
			add(firstOwnPort + rand.IntN(ownPorts)) //nolint:gosec // a port is no secret
		}
	}
	return append(ports, 0)
}

// listenPort listens on one port of bind, or of both loopback addresses.
func listenPort(bind string, port int) (*localListener, error) {
	if bind != "" && bind != "localhost" {
		return listenBound(bind, port)
	}
	v4, v6, err := freeport.Loopback(context.Background(), port)
	if err != nil {
		return nil, err
	}
	local := &localListener{listeners: []net.Listener{v4}, addr: netip.MustParseAddrPort(v4.Addr().String())}
	// By the name localhost a browser may reach another program's port on ::1,
	// so the URL has the address unless that is ours, too.
	local.urlHost = local.addr.String()
	if v6 != nil {
		local.listeners = append(local.listeners, v6)
		local.urlHost = "localhost:" + strconv.Itoa(local.port())
	}
	return local, nil
}

// listenBound listens on the address that the user chose.
func listenBound(bind string, port int) (*localListener, error) {
	network := "tcp" // for all addresses of both kinds
	if bind == "*" {
		bind = ""
	} else if addr, err := netip.ParseAddr(bind); err == nil && addr.Is4() {
		network = "tcp4"
	} else if err == nil {
		network = "tcp6"
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), network, net.JoinHostPort(bind, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	local := &localListener{listeners: []net.Listener{l}, addr: netip.MustParseAddrPort(l.Addr().String())}
	local.urlHost = local.addr.String()
	if local.addr.Addr().IsUnspecified() {
		local.urlHost = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), local.addr.Port()).String()
	}
	return local, nil
}

// listenUnix listens on a unix socket that only its owner may use, or everybody if it is
// shared. It replaces a socket that nobody serves any more, but never one that is served
// or a file of another kind.
func listenUnix(path string, shared bool) (*localListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
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
	return &localListener{listeners: []net.Listener{l}, path: path}, nil
}

func removeStaleSocket(path string) error {
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
