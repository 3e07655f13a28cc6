package agent

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

// reload reads the config file if it has changed, and publishes the new status. What is
// running stays as it is: a session uses its new settings at its next up, a host at its
// next dial. If the file has errors, the last valid one stays in use and one notice says
// so.
func (a *Agent) reload() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	// The mark is taken before the file is read: a change in between is seen next time.
	mark, changed := configs.ChangedDigest(a.opt.Paths.Config, a.configMark)
	if !changed {
		return
	}
	a.configMark = mark
	a.readConfig()
	a.pool.Reload(a.sshConfig())
	for _, s := range a.live() {
		if s.origin == fromConfig || s.origin == orphaned {
			a.dropIfDown(s)
		}
	}
	a.hub.publish(api.Event{Type: api.EventStatus})
}

// withConfig refuses a client that insists on another config file than the agent's. Before
// each other request it reloads the config: the watch of the file may be behind a person who
// saves it and types the next command. Only the request to stop must not wait for a file
// system that hangs.
func (a *Agent) withConfig(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ours := a.opt.Paths.Config
		theirs, err := url.QueryUnescape(r.Header.Get(api.ConfigHeader))
		if err == nil && theirs != "" && !sameFile(theirs, ours) {
			fail(w, api.Errorf(api.CodeConfig, "the agent is running with the config %s, not with %s", ours, theirs).
				WithHint("`tunctl agent restart` with the same --config or TUNCTL_CONFIG changes that; without both, commands use the agent's file"))
			return
		}
		if r.Method+" "+r.URL.Path != string(api.CallStop) {
			a.reload()
		}
		next.ServeHTTP(w, r)
	})
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a) //nolint:gosec // the user's own client names it
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// handleReload compares the settings of the hosts with the ssh config, for a client that
// has just changed it. The config itself is reloaded before each request.
func (a *Agent) handleReload(context.Context, api.None) (api.None, error) {
	a.pool.Reload(a.sshConfig())
	return api.None{}, nil
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

// validConfig returns an error while the config has errors: a new session would not use
// what the person has just written.
func (a *Agent) validConfig() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem == nil {
		return nil
	}
	return api.Errorf(api.CodeConfig, "%s", a.problem.Message).
		WithHint("fix the file, then try again; what is up stays up meanwhile")
}
