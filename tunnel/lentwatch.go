package tunnel

import (
	"os"
	"time"
)

// lentLook is how often we look for a new ssh connection of the person's, where a host
// cannot be reached without them.
const lentLook = 2 * time.Second

// controlSocket is one of the person's, as it was when we last tried it.
type controlSocket struct {
	path string
	info os.FileInfo // nil: there was none
}

// triedLent notes the control socket of a try: the same one is not tried again, since
// asking it may put a question to the person (ControlMaster ask).
func (h *Host) triedLent(path string) {
	info, _ := os.Stat(path) // nil for none
	h.mu.Lock()
	defer h.mu.Unlock()
	h.socket = controlSocket{path, info}
}

// newLent is the socket of a connection that the person has made since; nil if they
// have not.
func (h *Host) newLent() *controlSocket {
	h.mu.Lock()
	was := h.socket
	h.mu.Unlock()
	if was.path == "" {
		return nil
	}
	info, err := os.Stat(was.path)
	if err != nil || was.info != nil && os.SameFile(info, was.info) && info.ModTime().Equal(was.info.ModTime()) {
		return nil
	}
	return &controlSocket{was.path, info}
}

// sooner is when to look again, at the latest at a time that may be none.
func sooner(now, at time.Time) time.Time {
	if look := now.Add(lentLook); at.IsZero() || look.Before(at) {
		return look
	}
	return at
}
