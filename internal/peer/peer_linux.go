package peer

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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

// HolderOf names the program that listens on a local TCP port: "python (pid 4242)", or its
// user if the program is hidden from us. It is "" if nothing is known.
func HolderOf(port int) string {
	sockets, _ := procSockets(port)
	i := slices.IndexFunc(sockets, func(s procSocket) bool { return s.state == procListen })
	if i < 0 {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != "socket:["+sockets[i].inode+"]" {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		name, _ := os.ReadFile(filepath.Join(process, "comm"))
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	name := strconv.Itoa(sockets[i].uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return "a program of user " + name
}

// HolderHint is empty: HolderOf knows what can be known.
func HolderHint(int) string { return "" }

// Check returns nil if the program at the other end of a TCP connection within this machine
// belongs to this user, or to root, who can read everything anyway. The address of the other
// end alone proves nothing, so both ends of the connection are compared. What cannot be found
// out is an error, too.
//
// Some kernels and sandboxes have no sock_diag(7); there the table of all sockets is read,
// which takes two milliseconds for each thousand.
func Check(local, remote netip.AddrPort) error {
	theirs, ours := unmapped(remote), unmapped(local)
	s, err := querySocket(theirs, ours)
	if err != nil {
		sockets, err := procSockets(int(theirs.Port()))
		if err != nil {
			return fmt.Errorf("cannot tell whose program this is: %w", err)
		}
		i := slices.IndexFunc(sockets, func(s procSocket) bool { return s.local == theirs && s.remote == ours })
		if i < 0 && inWSL() { // whose Windows has programs that are in no table here
			return nil
		}
		if i < 0 {
			return errors.New("cannot tell whose program this is: its connection is not in /proc/net/tcp")
		}
		s = sockets[i]
	}
	if !s.ownedBy(os.Getuid()) {
		return ErrForeign
	}
	return nil
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
// user. Unlike [Check] it refuses root.
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

// procSockets are the TCP sockets of this network namespace with a local port. A client with
// a dual-stack socket is in tcp6, even if it dialed 127.0.0.1; a kernel without IPv6 has no
// tcp6.
func procSockets(port int) ([]procSocket, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return nil, err
	}
	table6, err := os.ReadFile("/proc/net/tcp6")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return append(parseProcSockets(string(table), port), parseProcSockets(string(table6), port)...), err
}

// parseProcSockets reads lines of "sl local remote st tx:rx tr:when retrnsmt uid timeout inode …".
func parseProcSockets(table string, port int) []procSocket {
	var sockets []procSocket
	written := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		if !strings.Contains(line, written) { // most have not, and there may be thousands
			continue
		}
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasSuffix(f[1], written) {
			continue
		}
		local, ok1 := parseProcAddr(f[1])
		remote, ok2 := parseProcAddr(f[2])
		uid, err := strconv.Atoi(f[7])
		if ok1 && ok2 && err == nil {
			sockets = append(sockets, procSocket{local, remote, f[3], uid, f[9]})
		}
	}
	return sockets
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

// unmapped is an address as parseProcAddr reads it.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// The messages of sock_diag(7).
type (
	diagAddress struct {
		Port, RemotePort     [2]byte // in network order, as the addresses
		Address, Remote      [16]byte
		Interface            uint32
		CookieLow, CookieTop uint32
	}
	diagRequest struct {
		unix.NlMsghdr
		Family     uint8
		Protocol   uint8
		Extensions uint8
		_          uint8
		States     uint32
		diagAddress
	}
	diagReply struct {
		unix.NlMsghdr
		Family, State uint8
		_             [2]uint8
		diagAddress
		_     [3]uint32 // a timer, two queues
		UID   uint32
		Inode uint32
	}
)

const anyCookie = ^uint32(0)

// querySocket queries the kernel for the one socket between two addresses. That takes a few
// microseconds; the table of all sockets takes a millisecond and more.
func querySocket(local, remote netip.AddrPort) (procSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return procSocket{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	timeout := unix.NsecToTimeval(time.Second.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return procSocket{}, err
	}
	if err := unix.Sendto(fd, encodeDiag(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return procSocket{}, err
	}
	buf := make([]byte, 4<<10)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return procSocket{}, err
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return procSocket{}, errors.New("an answer that is not the kernel's")
	}
	return decodeDiag(buf[:n], local, remote)
}

func encodeDiag(local, remote netip.AddrPort) []byte {
	req := diagRequest{
		NlMsghdr: unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST},
		Family:   unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: ^uint32(0),
		diagAddress: addressOf(local, remote),
	}
	if local.Addr().Is6() {
		req.Family = unix.AF_INET6
	}
	req.Len = uint32(binary.Size(req))
	b, _ := binary.Append(nil, binary.NativeEndian, req) // its size is fixed
	return b
}

func addressOf(local, remote netip.AddrPort) diagAddress {
	a := diagAddress{CookieLow: anyCookie, CookieTop: anyCookie}
	binary.BigEndian.PutUint16(a.Port[:], local.Port())
	binary.BigEndian.PutUint16(a.RemotePort[:], remote.Port())
	copy(a.Address[:], local.Addr().AsSlice())
	copy(a.Remote[:], remote.Addr().AsSlice())
	return a
}

// decodeDiag reads the kernel's answer. If the socket does not exist, it may be about a
// listener instead.
func decodeDiag(b []byte, local, remote netip.AddrPort) (procSocket, error) {
	var reply diagReply
	if _, err := binary.Decode(b, binary.NativeEndian, &reply); err != nil {
		return procSocket{}, err // as for an error, which is shorter
	}
	want := addressOf(local, remote)
	got := reply.diagAddress
	if reply.Type != unix.SOCK_DIAG_BY_FAMILY || got.Port != want.Port || got.RemotePort != want.RemotePort || got.Address != want.Address || got.Remote != want.Remote {
		return procSocket{}, errors.New("no such socket")
	}
	return procSocket{local: local, remote: remote, uid: int(reply.UID), inode: strconv.FormatUint(uint64(reply.Inode), 10)}, nil
}
