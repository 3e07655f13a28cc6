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

// clearLeftovers removes what is left of labs whose processes are all gone, as after a
// keeper was killed. Only one process at a time does it: a slower one would remove what a
// faster one has created again.
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
	// A keeper whose owner is gone is about to remove its lab.
	if !r.Keeper.gone() {
		return fmt.Errorf("the keeper of %s does not end: kill process %d", dir, r.Keeper.PID)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.remove(dir, r.runHere)
}

// ownNetwork names the network namespace of this process.
func ownNetwork() string {
	name, _ := os.Readlink("/proc/self/ns/net") // there is none where there are no labs
	return name
}

// runHere is run if the lab is in this network. From another one nothing can be deleted
// there, and nothing has to be: the network ended with its last process.
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
	return err == nil && time.Since(info.ModTime()) < 10*time.Minute
}

// remove removes everything that is left of a lab, and fails if something stays. Run runs
// commands in the network that has the laptop's end.
func (r record) remove(dir string, run func(input string, argv ...string) (string, error)) error {
	var problems []error
	parts := []process{r.Delay}
	for _, p := range r.Nodes {
		parts = append(parts, p)
	}
	for _, p := range parts {
		problems = append(problems, p.signal(syscall.SIGKILL))
	}
	for _, p := range parts {
		if !p.gone() {
			problems = append(problems, fmt.Errorf("process %d of %s does not end", p.PID, dir))
		}
	}
	if r.Linked {
		// The device's name reserves the slot. It ends with the switch, unless an orphaned
		// socket keeps the switch's namespace.
		_, err := run("", "ip", "link", "del", r.device())
		if err != nil && !strings.Contains(err.Error(), "Cannot find device") {
			problems = append(problems, err)
		}
	}
	if r.Config != "" {
		_ = os.Remove(r.Config)
	}
	problems = append(problems, removeCgroups(dir), os.RemoveAll(dir))
	// The last lab removes the folder of all labs.
	_ = os.Remove(base())
	return errors.Join(problems...)
}
