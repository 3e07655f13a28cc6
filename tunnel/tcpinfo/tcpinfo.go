// Package tcpinfo asks the system about a TCP connection, and has it send lost bytes again
// sooner. What a system cannot do, it leaves out.
package tcpinfo

import (
	"net"
	"syscall"
	"time"
)

// Info is what the system knows about a TCP connection.
type Info struct {
	Unacked  bool   // bytes of ours are not acknowledged
	Received uint64 // segments, including those without data
	Sent     uint64 // segments with data, including those sent again
	Resent   uint64
	// Reset: the other end has reset the connection, of which reading has ended and writing has not. Only
	// Linux tells: elsewhere a reset that a write got passes for an end.
	Reset bool
}

// Read asks the system about a connection; false: it is not TCP, or the system does not tell.
func Read(c net.Conn) (info Info, ok bool) {
	control(c, func(fd uintptr) { info, ok = read(int(fd)) })
	return info, ok
}

// TuneRetransmit has the system send lost bytes again sooner, where it can. The few bytes of an
// interactive connection are sent at even distances first: a link that loses a third of
// its packets then recovers in seconds, and not in half a minute. After an outage of
// minutes, a connection that only the user could replace continues within the pause;
// kernels before 6.15 wait as long as the outage has lasted, up to two minutes.
func TuneRetransmit(c net.Conn) { control(c, func(fd uintptr) { tuneRetransmit(int(fd)) }) }

// control calls f with the socket of a connection, if it has one.
func control(c net.Conn, f func(fd uintptr)) {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = raw.Control(f)
		}
	}
}

// LossMeter measures how many segments had to be sent again, over the last minutes in
// which the connection responded.
type LossMeter struct {
	at                time.Time // of middle
	old, middle, last Info
}

const (
	lossWindow = time.Minute // a measurement spans one to two of these
	// A link that sends one segment in twenty again may lose ten in a row at times.
	lossShare = 20
	lossLeast = 3
)

// Add takes in what is known now.
func (m *LossMeter) Add(info Info, now time.Time) {
	if now.Sub(m.at) >= lossWindow {
		m.at, m.old, m.middle = now, m.middle, m.last
	}
	m.last = info
}

// Lossy reports whether the link loses many segments.
func (m *LossMeter) Lossy() bool {
	resent := m.last.Resent - m.old.Resent
	return resent >= lossLeast && resent*lossShare >= m.last.Sent-m.old.Sent
}
