// Package peer finds out whose program is at the other end of a connection within this
// machine and, on Linux, which program uses a port. The caller decides what follows from
// that.
package peer

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// ErrForeign says that another user's program is at the other end of a connection.
var ErrForeign = errors.New("this belongs to another user of this computer")

// CheckConn is [Check] for an accepted connection. It accepts all of a unix socket, whose
// mode decides who may connect.
func CheckConn(c net.Conn) error {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return nil
	}
	return Check(local.AddrPort(), remote.AddrPort())
}

// CheckRequest is [Check] for the client of an HTTP server.
func CheckRequest(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if !ok || err != nil {
		return errors.New("cannot tell whose program this is: it did not connect over TCP")
	}
	return Check(local.AddrPort(), remote)
}
