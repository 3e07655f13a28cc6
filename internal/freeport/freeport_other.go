//go:build !linux

package freeport

import "net"

// stopListening does nothing: only Linux ends the listening of a socket before its close.
func stopListening(*net.TCPListener) {}
