package peer

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

	"golang.org/x/sys/unix"
)

// procListen is the state of a listener in /proc/net/tcp.
const procListen = "0A"

// procSocket is a line of /proc/net/tcp or tcp6.
type procSocket struct {
	local, remote netip.AddrPort
	state         string
	uid           int
	inode         string // "0" once no process has the socket open
}

// HolderOf finds the program that listens on a local TCP port.
func HolderOf(port int) Holder {
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
		return Holder{User: name}
	}
	return Holder{}
}

// inodeHolder finds the process that has a socket open, among those that we may see.
func inodeHolder(inode string) (Holder, bool) {
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
		return Holder{Name: strings.TrimSpace(string(comm)), PID: pid}, true
	}
	return Holder{}, false
}

// Own reports whether the program at the other end of a TCP connection within this
// machine belongs to this user, or to root, who can read everything anyway. The address
// of the other end alone proves nothing, so both ends of the connection are compared.
func Own(local, remote netip.AddrPort) bool {
	theirs, ours := unmapped(remote), unmapped(local)
	if s, err := querySocket(theirs, ours); err == nil {
		return s.ownedBy(os.Getuid())
	}
	for s := range procSockets() {
		if s.local == theirs && s.remote == ours {
			return s.ownedBy(os.Getuid())
		}
	}
	// Programs of the Windows around a Windows Subsystem for Linux are in no table here.
	return inWSL()
}

// ownedBy reports whether the socket is certainly the user's or root's. Older kernels show
// a socket that no process has open any more as root's, whoever had it.
func (s procSocket) ownedBy(uid int) bool {
	if s.inode == "0" {
		return s.uid == uid && uid != 0
	}
	return s.uid == uid || s.uid == 0
}

// SameUser reports whether the program at the other end of a unix socket belongs to this
// user. Unlike [Own] it refuses root.
func SameUser(conn net.Conn) bool {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	err = raw.Control(func(fd uintptr) {
		cred, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return err == nil && cred != nil && int(cred.Uid) == os.Getuid()
}

// inWSL reports whether this is a Windows Subsystem for Linux.
func inWSL() bool {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && strings.Contains(strings.ToLower(string(release)), "microsoft")
}

// procSockets yields the TCP sockets of this network namespace. A client with a
// dual-stack socket is in tcp6, even if it dialed 127.0.0.1.
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

// parseProcAddr reads an address written as words in the machine's byte order.
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
