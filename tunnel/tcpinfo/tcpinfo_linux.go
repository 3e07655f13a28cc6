package tcpinfo

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Read asks the system about a connection; false: it is not TCP.
func Read(c net.Conn) (info Info, ok bool) {
	control(c, func(fd int) {
		i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		const closed = 7 // TCP_CLOSE; after the other end's ordinary end it is TCP_CLOSE_WAIT
		info = Info{Unacked: i.Unacked > 0, Received: uint64(i.Segs_in), Sent: uint64(i.Data_segs_out), Resent: uint64(i.Total_retrans), Reset: i.State == closed}
		ok = true
	})
	return info, ok
}

// The longest pause between two times that the system sends the same bytes, and how long
// it does so in all, which is Linux's default and would shrink with the pause.
const (
	resendPause = 10 * time.Second
	resendFor   = 924600 * time.Millisecond
)

// TuneRetransmit has the system send lost bytes again sooner. The few bytes of an
// interactive connection are sent at even distances first: a link that loses a third of
// its packets then recovers in seconds, and not in half a minute. After an outage of
// minutes, a connection that only the user could replace continues within the pause;
// kernels before 6.15 wait as long as the outage has lasted, up to two minutes.
func TuneRetransmit(c net.Conn) {
	const rtoMax = 44 // TCP_RTO_MAX_MS
	control(c, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
		if unix.SetsockoptInt(fd, unix.IPPROTO_TCP, rtoMax, int(resendPause.Milliseconds())) == nil {
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(resendFor.Milliseconds()))
		}
	})
}
