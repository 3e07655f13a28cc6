package tcpinfo

import (
	"net"

	"golang.org/x/sys/unix"
)

// Read asks the system about a connection; false: it is not TCP.
func Read(c net.Conn) (info Info, ok bool) {
	control(c, func(fd int) {
		i, err := unix.GetsockoptTCPConnectionInfo(fd, unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
		if err != nil {
			return
		}
		info = Info{Unacked: i.Snd_sbbytes > 0, Received: i.Rxpackets, Sent: i.Txpackets, Resent: i.Txretransmitpackets}
		ok = true
	})
	return info, ok
}

// TuneRetransmit does nothing: only Linux can do that.
func TuneRetransmit(net.Conn) {}
