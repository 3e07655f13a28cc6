// Package freeport closes TCP listeners so that their ports are free at once.
package freeport

import "net"

// Close closes a listener whose port is to be used again. A program that is just being
// started has a copy of every open socket until it runs, a few milliseconds on a busy
// machine: with the copy of a closed listener the port would stay in use, and accept
// connections that nobody serves.
func Close(l net.Listener) error {
	if tcp, ok := l.(*net.TCPListener); ok {
		stopListening(tcp)
	}
	return l.Close()
}
