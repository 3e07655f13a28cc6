package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// masterPollEvery is how often we look for a new ssh connection of the person's, where
// the host needs a login that only they can do.
const masterPollEvery = 2 * time.Second

// reusesMaster reports whether the config allows the person's own ssh connection to be
// used, so that the host can be reached without a login of ours.
func (h *Host) reusesMaster() bool {
	var s sshconfig.Settings
	h.pool.o.Preset(h.name, &s)
	return s.ReuseMaster
}

// reusedMaster is a connection through the person's own ssh (ControlMaster); nil where
// the config does not allow that, or no master runs. The master stays theirs: it was
// there before us, and we never end it.
func (t *attempt) reusedMaster(ctx context.Context) *conn {
	s := &t.settings
	if !s.ReuseMaster || !sharesConnections {
		return nil
	}
	if s.ControlPath == "" {
		t.warn("reuse_master has no effect: the ssh settings name no ControlPath for this host")
		return nil
	}
	t.host.step("looking for your own ssh connection")
	t.host.noteControlSocket(s.ControlPath)
	c, err := t.attachMaster(ctx)
	switch {
	case err == nil:
		t.log.Info("using the person's own ssh connection", "controlPath", s.ControlPath)
		return c
	case errors.Is(err, fs.ErrNotExist) || isConnRefused(err):
		t.log.Debug("there is no ssh connection to use", "controlPath", s.ControlPath)
	default:
		t.warn(fmt.Sprintf("your own ssh connection at %s is not used: %v", s.ControlPath, err))
	}
	return nil
}

// probeMaster makes sure that a server answers behind a control socket: a master may not
// have noticed yet that its link is dead.
func (t *attempt) probeMaster(ctx context.Context, c *conn) error {
	limit := t.pool.o.Limits.DialTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answered := make(chan struct{})
	c.spawn(func() {
		defer close(answered)
		c.probeSession()
	})
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no response within %s", api.DurationText(limit))
	}
}

// controlSocket is the person's, as it was when we last tried it.
type controlSocket struct {
	path string
	info os.FileInfo // nil: it did not exist
}

// noteControlSocket records the control socket of a try. The same one is not tried
// again: a connection to it may ask the person a question (ControlMaster ask).
func (h *Host) noteControlSocket(path string) {
	info, _ := os.Stat(path) // nil where it does not exist
	h.mu.Lock()
	defer h.mu.Unlock()
	h.socket = controlSocket{path, info}
}

// newControlSocket is the socket of a master that the person started since the last try;
// nil if they have not.
func (h *Host) newControlSocket() *controlSocket {
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

// nextMasterPoll is when to look for a new master, but not after a time that may be zero.
func nextMasterPoll(now, at time.Time) time.Time {
	if poll := now.Add(masterPollEvery); at.IsZero() || poll.Before(at) {
		return poll
	}
	return at
}
