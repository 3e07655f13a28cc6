package tunnel

import (
	"net"

	"golang.org/x/sys/unix"
)

// readTCPInfo asks the system about a connection; false: it is not TCP.
func readTCPInfo(c net.Conn) (info tcpInfo, ok bool) {
	control(c, func(fd int) {
		i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		info = tcpInfo{unacked: i.Unacked > 0, received: uint64(i.Segs_in), sent: uint64(i.Data_segs_out), resent: uint64(i.Total_retrans)}
		ok = true
	})
	return info, ok
}

// retryEvenly has the system send the few bytes of an interactive connection again at
// even distances first: a link that loses a third of its packets then recovers in
// seconds, and not in half a minute.
func retryEvenly(c net.Conn) {
	control(c, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1) })
}
