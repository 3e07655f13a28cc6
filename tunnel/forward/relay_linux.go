package forward

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// wasReset reports whether the peer of c has reset it. Reading from c has ended, writing
// has not.
func wasReset(c net.Conn) bool {
	const closed = 7 // TCP_CLOSE; after the peer's ordinary end it is TCP_CLOSE_WAIT
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	reset := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		reset = err == nil && info.State == closed
	})
	return err == nil && reset
}
