package agent

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

// reload reads the config file unless it is as it was last read, and tells the watchers.
// What is running stays as it is: a session takes its new settings at its next up, a
// host at its next dial. A file with errors leaves the last good one in place and is
// complained about once.
func (a *Agent) reload() {
	a.reading.Lock()
	defer a.reading.Unlock()
	// Taken before the file is read: whatever is written in between is seen next time.
	mark, changed := configs.ChangedDigest(a.opt.Paths.Config, a.mark)
	if !changed {
		return
	}
	a.mark = mark
	a.readConfig()
	a.pool.Reload(a.sshConfig())
	a.letGoOfOutlived()
	a.hub.publish(api.Event{Type: api.EventStatus})
}

// reloading answers every request by the config as it is on disk: the watch of the file
// is a moment behind a person who saves it and types the next command. Only the request
// to stop must not wait for a file system that hangs.
func (a *Agent) reloading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != stopPath {
			a.reload()
		}
		next.ServeHTTP(w, r)
	})
}

// handleReload compares the hosts' settings with the ssh config, for a client that has
// just written one: the config itself was read before any request.
func (a *Agent) handleReload(context.Context, struct{}) (struct{}, error) {
	a.pool.Reload(a.sshConfig())
	return struct{}{}, nil
}

func (a *Agent) readConfig() {
	cfg, err := configs.Load(a.opt.Paths.Config)
	if errors.Is(err, fs.ErrNotExist) {
		cfg, err = &configs.Config{Path: a.opt.Paths.Config}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		if a.problem != nil {
			a.log.Info("the config is valid again", "file", a.opt.Paths.Config)
		}
		a.config, a.problem = cfg, nil
		return
	}
	if a.problem != nil && a.problem.Message == err.Error() {
		return
	}
	a.problem = &api.Problem{Message: err.Error(), Since: time.Now()}
	a.log.Warn("the config has errors; the last valid one stays in use", "err", err)
	a.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Text: "the config has errors; the last valid one stays in use: " + err.Error()}})
}

// validConfig refuses to start a session while the config has errors: what is in use may
// not be what the person has just written.
func (a *Agent) validConfig() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem == nil {
		return nil
	}
	return &api.Error{
		Code: api.CodeConfig, Message: a.problem.Message,
		Hint: "fix the file, then try again; what is up stays up meanwhile",
	}
}
