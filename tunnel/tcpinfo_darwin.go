package tunnel

import (
	"net"

	"golang.org/x/sys/unix"
)

// readTCPInfo asks the system about a connection; false: it is not TCP.
func readTCPInfo(c net.Conn) (info tcpInfo, ok bool) {
	control(c, func(fd int) {
		i, err := unix.GetsockoptTCPConnectionInfo(fd, unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
		if err != nil {
			return
		}
		info = tcpInfo{unacked: i.Snd_sbbytes > 0, received: i.Rxpackets, sent: i.Txpackets, resent: i.Txretransmitpackets}
		ok = true
	})
	return info, ok
}

func resendSooner(net.Conn) {}
