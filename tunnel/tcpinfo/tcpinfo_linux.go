package tcpinfo

import (
	"time"

	"golang.org/x/sys/unix"
)

func read(fd int) (Info, bool) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return Info{}, false
	}
	const closed = 7 // TCP_CLOSE; after the other end's ordinary end it is TCP_CLOSE_WAIT
	return Info{Unacked: i.Unacked > 0, Received: uint64(i.Segs_in), Sent: uint64(i.Data_segs_out), Resent: uint64(i.Total_retrans), Reset: i.State == closed}, true
}

// The longest pause between two times that the system sends the same bytes, and how long
// it does so in all, which is Linux's default and would shrink with the pause.
const (
	resendPause = 10 * time.Second
	resendFor   = 924600 * time.Millisecond
)

func tuneRetransmit(fd int) {
	const rtoMax = 44 // TCP_RTO_MAX_MS
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
	if unix.SetsockoptInt(fd, unix.IPPROTO_TCP, rtoMax, int(resendPause.Milliseconds())) == nil {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(resendFor.Milliseconds()))
	}
}
