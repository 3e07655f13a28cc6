package real

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// clearLeftovers removes what is left of labs whose processes are all gone: a
// keeper that was killed cannot tidy up. One process at a time does it, or the
// slower would take what the quicker has since made again.
func clearLeftovers() error {
	unlock, err := lock(base())
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(base())
	if err != nil {
		return err
	}
	var problems []error
	for _, e := range entries {
		problems = append(problems, clearLeftover(filepath.Join(base(), e.Name())))
	}
	return errors.Join(problems...)
}

func clearLeftover(dir string) error {
	r, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) && fresh(dir) || r.Owner.alive() {
		return nil
	}
	// A keeper whose owner is gone is about to do it.
	if !r.Keeper.gone(20 * time.Second) {
		return fmt.Errorf("the keeper of %s does not end: kill process %d", dir, r.Keeper.PID)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.sweep(dir, r.runHere)
}

// ownNetwork names the network namespace of this process.
func ownNetwork() string {
	name, _ := os.Readlink("/proc/self/ns/net") // there is none where there are no labs
	return name
}

// runHere is run, for the network that the lab is in. From another one nothing can be
// deleted there, and nothing has to be: it went with its last process.
func (r record) runHere(input string, argv ...string) (string, error) {
	if r.Network != ownNetwork() {
		return "", nil
	}
	return run(input, argv...)
}

// fresh reports whether a folder is so new that its lab may still be writing its
// record.
func fresh(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && time.Since(info.ModTime()) < time.Minute
}

// sweep removes everything that is left of a lab, and fails if something stays.
// The runner runs commands in the network that has the laptop's end.
func (r record) sweep(dir string, run func(input string, argv ...string) (string, error)) error {
	var problems []error
	parts := []process{r.Delay}
	for _, p := range r.Nodes {
		parts = append(parts, p)
	}
	for _, p := range parts {
		problems = append(problems, p.signal(syscall.SIGKILL))
	}
	for _, p := range parts {
		if !p.gone(10 * time.Second) {
			problems = append(problems, fmt.Errorf("process %d of %s does not end", p.PID, dir))
		}
	}
	if r.Linked {
		// The device last: its name holds the slot. It goes with the switch, but not as
		// long as an orphaned socket keeps the switch's namespace.
		_, err := run("", "ip", "route", "del", "unreachable", r.prefix().String(), "metric", farMetric)
		problems = append(problems, unlessGone(err))
		_, err = run("", "ip", "link", "del", r.device())
		problems = append(problems, unlessGone(err))
	}
	if r.Config != "" {
		_ = os.Remove(r.Config)
	}
	problems = append(problems, os.RemoveAll(dir))
	// The last lab takes the folder of all labs with it.
	_ = os.Remove(base())
	return errors.Join(problems...)
}

// unlessGone forgives ip the complaint that there is nothing to delete.
func unlessGone(err error) error {
	if err == nil || strings.Contains(err.Error(), "No such process") || strings.Contains(err.Error(), "Cannot find device") {
		return nil
	}
	return err
}
