package real

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/dev/wait"
)

// Linux's numbers: syscall has no names for these on every system that this
// package must compile on.
const (
	sigStop = syscall.Signal(19)
	sigCont = syscall.Signal(18)
)

// process identifies a process, also after its number is reused.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since the machine's start
}

// lookup describes the process that has pid now.
func lookup(pid int) (process, error) {
	s, err := readStat(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Start: s.start}, nil
}

// alive reports whether the process still runs. A zombie does not; but its first thread
// may be one while others still have its files open.
func (p process) alive() bool {
	if p.PID == 0 {
		return false
	}
	dir := filepath.Join("/proc", strconv.Itoa(p.PID))
	s, err := readStat(dir)
	if err != nil || s.start != p.Start {
		return false
	}
	if s.state != "Z" && s.state != "X" {
		return true
	}
	threads, _ := os.ReadDir(filepath.Join(dir, "task"))
	return len(threads) > 1
}

// signal sends sig, if the process still is the one that was recorded.
func (p process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	q, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	if err := q.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// gone waits until the process has ended, which may take long on a busy machine.
func (p process) gone() bool {
	return poll(func() bool { return !p.alive() })
}

// stat is the part of /proc/PID/stat that matters here; see proc_pid_stat(5).
type stat struct {
	name, state string
	parent      int
	start       uint64
}

func readStat(dir string) (stat, error) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

// parseStat takes the name from between the first and the last parenthesis: it
// may hold spaces and parentheses itself.
func parseStat(text string) (stat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("no name in %q", text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("too few fields in %q", text)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return stat{}, err
	}
	return stat{name: text[open+1 : end], state: fields[0], parent: parent, start: start}, nil
}

// children lists the processes whose parent is pid.
func children(pid int) []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []process
	for _, dir := range dirs {
		s, err := readStat(dir)
		if err != nil || s.parent != pid {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		found = append(found, process{PID: child, Start: s.start})
	}
	return found
}

// poll calls done every few milliseconds until it returns true or wait.Limit has passed.
func poll(done func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait.Limit); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
