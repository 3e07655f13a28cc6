// Package tcpinfo asks the system about a TCP connection, and has it send lost bytes again
// sooner. What a system cannot do, it leaves out.
package tcpinfo

import "time"

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
