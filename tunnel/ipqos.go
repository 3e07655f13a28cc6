package tunnel

import (
	"log/slog"
	"net"
	"strconv"
	"strings"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"tunctl/tunnel/sshconfig"
)

// classes are the names of ssh_config's IPQoS.
var classes = map[string]int{
	"af11": 0x28, "af12": 0x30, "af13": 0x38, "af21": 0x48, "af22": 0x50, "af23": 0x58,
	"af31": 0x68, "af32": 0x70, "af33": 0x78, "af41": 0x88, "af42": 0x90, "af43": 0x98,
	"cs0": 0x00, "cs1": 0x20, "cs2": 0x40, "cs3": 0x60, "cs4": 0x80, "cs5": 0xa0, "cs6": 0xc0, "cs7": 0xe0,
	"ef": 0xb8, "le": 0x04, "lowdelay": 0x10, "throughput": 0x08, "reliability": 0x04,
}

// class is the traffic class for forwarded data, the last word of IPQoS.
func class(ipqos string) (int, bool) {
	words := strings.Fields(ipqos)
	if len(words) == 0 {
		return 0, false
	}
	word := strings.ToLower(words[len(words)-1])
	if c, ok := classes[word]; ok {
		return c, true
	}
	n, err := strconv.ParseUint(word, 0, 8)
	return int(n), err == nil
}

// tune sets the traffic class the person asked for. Some networks drop or slow
// what ssh marks by default, so without a wish nothing is marked.
func tune(c net.Conn, s *sshconfig.Settings, log *slog.Logger) {
	tos, ok := class(s.IPQoS)
	tcp, isTCP := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !isTCP {
		return
	}
	var err error
	if tcp.IP.To4() != nil {
		err = ipv4.NewConn(c).SetTOS(tos)
	} else {
		err = ipv6.NewConn(c).SetTrafficClass(tos)
	}
	if err != nil {
		log.Debug("IPQoS not set", "err", err)
	}
}
