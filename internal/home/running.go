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

// Running is the agent that runs: the one that holds the lock. Where it listens need
// not be where others would look, since XDG_RUNTIME_DIR differs between a terminal,
// cron and su.
type Running struct {
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
	Socket string    `json:"socket"`
}

// String says which agent is meant.
func (r Running) String() string {
	if r.PID == 0 {
		return "another agent"
	}
	return fmt.Sprintf("the agent with pid %d, running since %s", r.PID, r.Since.Local().Format("Mon 2 Jan 15:04"))
}

// runningFile is beside the lock and not in it: Windows lets nobody read a locked file.
func (p Paths) runningFile() string { return filepath.Join(p.State, "agent.json") }

// Running reads which agent last said that it runs. One that was killed is still named:
// whether it runs is known by the lock, or by its answer.
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
	if err := os.Remove(p.runningFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SpareSocket is where an agent listens that cannot listen at Socket: in the state
// folder, which is there whatever the environment says.
func (p Paths) SpareSocket() string { return shortSocket(filepath.Join(p.State, "run", "agent.sock")) }
