package tunnel

import (
	"bytes"
	"strings"
	"sync"

	"tunctl/internal/api"
)

// stderrBuffer is what a command prints on standard error. It can be searched while the command runs,
// and keeps the end.
type stderrBuffer struct {
	mu      sync.Mutex
	all     bytes.Buffer
	ended   bool
	changed *sync.Cond // at each write, and at the end
}

func newStderrBuffer() *stderrBuffer {
	s := &stderrBuffer{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Write implements io.Writer.
func (s *stderrBuffer) Write(p []byte) (int, error) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.Len() > most {
		s.all.Next(s.all.Len() / 2)
	}
	s.all.Write(p)
	s.changed.Broadcast()
	return len(p), nil
}

func (s *stderrBuffer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// await waits for words, and reports whether they came before the end.
func (s *stderrBuffer) await(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !bytes.Contains(s.all.Bytes(), []byte(words)) {
		if s.ended {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// tail is the end of it.
func (s *stderrBuffer) tail() api.RemoteText {
	const most = 2000
	raw := s.raw()
	return api.NewRemoteText(raw[max(0, len(raw)-most):])
}

// raw is all that is kept.
func (s *stderrBuffer) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// text is the last lines, without debug messages.
func (s *stderrBuffer) text() api.RemoteText {
	var lines []string
	for line := range strings.Lines(s.raw()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "debug") && !strings.HasPrefix(line, "OpenSSH_") {
			lines = append(lines, line)
		}
	}
	return api.NewRemoteText(strings.Join(lines[max(0, len(lines)-3):], "; "))
}
