package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
)

// maxHistory is how large the history may grow: some thousand jobs. Past it, the
// older half goes.
const maxHistory = 512 << 10

// history is the file of jobs that are over, one a line.
type history struct {
	path string
	mu   sync.Mutex // one writer at a time
}

// add appends a run.
func (h *history) add(r api.Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	_, werr := f.Write(append(line, '\n'))
	info, serr := f.Stat()
	if err := errors.Join(werr, serr, f.Close()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if info.Size() > maxHistory {
		return h.shrink()
	}
	return nil
}

// shrink keeps the newer half.
func (h *history) shrink() error {
	data, err := os.ReadFile(h.path)
	if err != nil {
		return fmt.Errorf("shorten history: %w", err)
	}
	half := data[len(data)/2:]
	if _, rest, ok := bytes.Cut(half, []byte("\n")); ok {
		half = rest
	}
	if err := atomicfile.Write(h.path, half, 0o600); err != nil {
		return fmt.Errorf("shorten history: %w", err)
	}
	return nil
}

// History reads the runs that are over, the oldest first. It needs no agent. A line
// that a crash cut short is left out.
func History(path string) ([]api.Run, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer func() { _ = f.Close() }()
	var runs []api.Run
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r api.Run
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			runs = append(runs, r)
		}
	}
	return runs, lines.Err()
}

// chronicle writes down that a job of the session is over. A history that cannot be
// written stops nothing.
func (s *session) chronicle(job api.Job) {
	now := time.Now()
	if job.End.IsZero() || job.End.After(now) {
		job.End = now // of a job that was still running, it was the time limit
	}
	job.Script = ""
	run := api.Run{Session: s.name, Host: s.host(), Job: job, Why: api.Redact(endedWords(&job)), Noted: now}
	if err := s.agent.history.add(run); err != nil {
		s.agent.log.Warn("cannot write the history", "err", err)
	}
}
