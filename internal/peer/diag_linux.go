package peer

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The messages of sock_diag(7).
type (
	diagAddress struct {
		Port, RemotePort     [2]byte // in network order, as the addresses
		Address, Remote      [16]byte
		Interface            uint32
		CookieLow, CookieTop uint32
	}
	diagRequest struct {
		Length        uint32
		Type, Flags   uint16
		Sequence, PID uint32
		Family        uint8
		Protocol      uint8
		Extensions    uint8
		_             uint8
		States        uint32
		diagAddress
	}
	diagReply struct {
		Length        uint32
		Type, Flags   uint16
		Sequence, PID uint32
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
		Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST,
		Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: ^uint32(0),
		diagAddress: addressOf(local, remote),
	}
	if local.Addr().Is6() {
		req.Family = unix.AF_INET6
	}
	req.Length = uint32(binary.Size(req))
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
