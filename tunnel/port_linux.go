package tunnel

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The states of /proc/net/tcp that matter here.
const (
	procEstablished = "01"
	procListen      = "0A"
)

// procSocket is a line of /proc/net/tcp or tcp6.
type procSocket struct {
	local, remote netip.AddrPort
	state         string
	uid           int
	inode         string // "0" once no process holds the socket
}

// portHolder finds out which program listens on a local TCP port.
func portHolder(port int) holder {
	for s := range procSockets() {
		if s.state != procListen || int(s.local.Port()) != port {
			continue
		}
		if h, ok := inodeHolder(s.inode); ok {
			return h
		}
		name := strconv.Itoa(s.uid)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return holder{user: name}
	}
	return holder{}
}

// inodeHolder finds the process that has a socket open, among those we may see.
func inodeHolder(inode string) (holder, bool) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	want := "socket:[" + inode + "]"
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != want {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return holder{name: strings.TrimSpace(string(comm)), pid: pid}, true
	}
	return holder{}, false
}

// ownPeer reports whether a connection over loopback comes from a process of this
// user, or of root, whom nothing is hidden from anyway.
func ownPeer(c net.Conn) bool {
	here, ok1 := c.LocalAddr().(*net.TCPAddr)
	there, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 || !there.IP.IsLoopback() {
		return true // a unix socket has its mode; --bind lets others in knowingly
	}
	local, remote := unmapped(there.AddrPort()), unmapped(here.AddrPort())
	for s := range procSockets() {
		if s.local != local || s.remote != remote {
			continue
		}
		// A socket whose process is gone reads as root's: it proves nothing.
		return s.inode != "0" && s.state == procEstablished && (s.uid == os.Getuid() || s.uid == 0)
	}
	return false
}

// procSockets yields the TCP sockets of this network namespace. A client with a
// dual-stack socket shows up in tcp6, even when it dialled 127.0.0.1.
func procSockets() iter.Seq[procSocket] {
	return func(yield func(procSocket) bool) {
		for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			f, err := os.Open(path)
			if err != nil {
				continue
			}
			more := true
			for s := range parseProcSockets(f) {
				if more = yield(s); !more {
					break
				}
			}
			_ = f.Close()
			if !more {
				return
			}
		}
	}
}

func parseProcSockets(r io.Reader) iter.Seq[procSocket] {
	return func(yield func(procSocket) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if s, ok := parseProcSocket(lines.Text()); ok && !yield(s) {
				return
			}
		}
	}
}

// parseProcSocket reads "sl local remote st tx:rx tr:when retrnsmt uid timeout inode …".
func parseProcSocket(line string) (procSocket, bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return procSocket{}, false
	}
	local, ok1 := parseProcAddr(f[1])
	remote, ok2 := parseProcAddr(f[2])
	uid, err := strconv.Atoi(f[7])
	return procSocket{local, remote, f[3], uid, f[9]}, ok1 && ok2 && err == nil
}

// parseProcAddr reads an address written as words of the machine's byte order.
func parseProcAddr(s string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(addr)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	ip, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok && err == nil
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
