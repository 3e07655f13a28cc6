//go:build !linux

package desktop

import "net/netip"

// peerCheck returns nil: this system does not tell who is at the other end.
func peerCheck(environ) func(local, remote netip.AddrPort) bool { return nil }
