// Package peer tells whose program is at the other end of a connection within this
// machine, and which one holds a port. What to do about it is the caller's affair.
package peer

import (
	"fmt"
	"net"
	"net/netip"
)

// OwnConn is [Own] for an accepted connection. A unix socket has its mode instead.
func OwnConn(c net.Conn) bool {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	return !ok1 || !ok2 || Own(local.AddrPort(), remote.AddrPort())
}

// Holder is the program that listens on a local port. It is zero where that could not
// be found out.
type Holder struct {
	Name string
	PID  int
	User string // in place of Name and PID, where another user's program is hidden from us
}

// String names the program as a person would look for it.
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

// unmapped is an address as the system's tables have it.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
