package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tunctl/internal/atomicfile"
)

// Running is the agent that holds the lock. Its socket may differ from that in Paths,
// since XDG_RUNTIME_DIR differs between a terminal, cron and su.
type Running struct {
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
	Socket string    `json:"socket"`
}

// String describes the agent.
func (r Running) String() string {
	if r.PID == 0 {
		return "another agent"
	}
	return fmt.Sprintf("the agent with pid %d, running since %s", r.PID, r.Since.Local().Format("Mon 2 Jan 15:04"))
}

// BeforeBoot reports whether the agent ran before this computer was last started: it ended
// with the computer.
func (r Running) BeforeBoot() bool { return r.Since.Before(bootTime()) }

// runningFile is not the lock file: on Windows nobody can read a locked file.
func (p Paths) runningFile() string { return filepath.Join(p.State, "agent.json") }

// Running reads which agent was last announced. That may be one that was killed: only
// the lock, or an answer, shows whether it runs.
func (p Paths) Running() (Running, error) {
	var r Running
	text, err := os.ReadFile(p.runningFile())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Running{}, fmt.Errorf("cannot read which agent is running: %w", err)
	}
	return r, nil
}

// SetRunning records which agent runs. Only the holder of the lock may.
func (p Paths) SetRunning(r Running) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(p.runningFile(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write which agent is running: %w", err)
	}
	return nil
}

// ClearRunning removes what SetRunning wrote.
func (p Paths) ClearRunning() error {
	if err := atomicfile.Remove(p.runningFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
