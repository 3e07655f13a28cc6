// Package peer finds out whose program is at the other end of a connection within this
// machine, and which program uses a port. The caller decides what follows from that.
package peer

import (
	"fmt"
	"net"
	"net/netip"
)

// OwnConn is [Own] for an accepted connection. It is true for a unix socket, whose mode
// decides who may connect.
func OwnConn(c net.Conn) bool {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	return !ok1 || !ok2 || Own(local.AddrPort(), remote.AddrPort())
}

// Holder is the program that listens on a local port. It is zero if that is not known.
type Holder struct {
	Name string
	PID  int
	User string // instead of Name and PID, if the program is another user's and hidden from us
}

// String names the program for a person.
func (h Holder) String() string {
	switch {
	case h.PID != 0 && h.Name != "":
		return fmt.Sprintf("%s (pid %d)", h.Name, h.PID)
	case h.PID != 0:
		return fmt.Sprintf("pid %d", h.PID)
	case h.User != "":
		return "a program of user " + h.User
	}
	return "another program"
}

// unmapped is an address as in the system's tables.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
