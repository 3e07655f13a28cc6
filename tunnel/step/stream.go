package step

import (
	"bufio"
	"fmt"
	"io"
	"sync"
)

// stream carries bytes to the relay and back, over one way after another. What the relay
// has not acknowledged is kept, and sent again over the next way: that the way took it
// means nothing, since srun takes bytes that nobody will get.
type stream struct {
	mu      *sync.Mutex   // the Conn's; guards everything
	changed *sync.Cond    // anything below
	resumes bool          // there may be another way after this one
	way     *way          // nil: it was lost
	lost    chan struct{} // closed then
	err     error         // why there will be no other

	kept     []byte // not acknowledged
	acked    uint64 // bytes, all of them before kept
	sent     uint64
	received uint64
	told     uint64 // how much of that the relay knows of
	inbox    []byte // received, and not yet read
}

// way is one connection to the relay. Its goroutines end when rw has let go of them, which
// may be long after it was closed if the network below stalls.
type way struct {
	rw io.ReadWriteCloser
	in *bufio.Reader // its next byte is the relay's next
}

// openLocked continues over a way.
func (s *stream) openLocked(w *way) {
	s.way, s.lost = w, make(chan struct{})
	go s.receive(w)
	go s.send(w)
}

// loseLocked gives the way up.
func (s *stream) loseLocked(why error) {
	w := s.way
	if w == nil {
		return
	}
	s.way = nil
	if !s.resumes {
		s.err = why
	}
	close(s.lost)
	s.changed.Broadcast()
	go func() { _ = w.rw.Close() }()
}

func (s *stream) endLocked(why error) {
	s.resumes = false
	s.loseLocked(why)
	s.err = why
	s.changed.Broadcast()
}

// receive reads from a way until it is lost.
func (s *stream) receive(w *way) {
	buf := make([]byte, bufferSize)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.way == w {
		if len(s.inbox) > 0 { // it may be buf
			s.changed.Wait()
			continue
		}
		s.mu.Unlock()
		n, err := w.in.Read(buf)
		s.mu.Lock()
		switch {
		case s.way != w: // what was read comes again over the next way
		case n > 0:
			s.inbox = buf[:n]
			s.received += uint64(n)
			s.changed.Broadcast()
		case err != nil:
			s.loseLocked(err)
		}
	}
}

// send writes to a way until it is lost.
func (s *stream) send(w *way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.way == w {
		unsent := s.kept[s.sent-s.acked:]
		if len(unsent) == 0 {
			s.changed.Wait()
			continue
		}
		s.sent += uint64(len(unsent))
		s.changed.Broadcast()
		s.mu.Unlock()
		_, err := w.rw.Write(unsent)
		s.mu.Lock()
		if err != nil && s.way == w {
			s.loseLocked(fmt.Errorf("the way to the relay inside the job was lost: %w", noEOF(err)))
		}
	}
}

// Read reads what the relay sent, over whichever way. It waits for the next one if there may
// be one.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.inbox) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.changed.Wait()
	}
	n := copy(p, s.inbox)
	s.inbox = s.inbox[n:]
	s.changed.Broadcast()
	return n, nil
}

// fullLocked reports whether those who write should wait.
func (s *stream) fullLocked() bool {
	unsent := s.acked + uint64(len(s.kept)) - s.sent
	return unsent >= outLimit || len(s.kept) >= keptLimit
}

// acknowledgeLocked forgets what the relay has, and reports whether it can have that.
func (s *stream) acknowledgeLocked(total uint64) bool {
	if total > s.sent {
		return false
	}
	total = max(total, s.acked) // an old one may come again over the next way
	if s.kept = s.kept[total-s.acked:]; len(s.kept) == 0 {
		s.kept = nil // it may have been much
	}
	s.acked = total
	s.changed.Broadcast()
	return true
}
