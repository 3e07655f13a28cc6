package agent

import (
	"errors"
	"io/fs"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

// reload reads the config file. What is running stays as it is: a session takes
// its new settings at its next up, a host at its next dial. A file with errors leaves
// the last good one in place and is complained about once.
func (a *Agent) reload() {
	a.readConfig()
	a.pool.Reload(a.sshConfig())
	a.letGoOfOutlived()
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
			a.log.Info("the config is good again", "file", a.opt.Paths.Config)
		}
		a.config, a.problem = cfg, nil
		return
	}
	if a.problem != nil && a.problem.Message == err.Error() {
		return
	}
	a.problem = &api.Problem{Message: err.Error(), Since: time.Now()}
	a.log.Warn("the config has errors; the last good one stays", "err", err)
	a.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Text: "the config has errors; the last good one stays: " + err.Error()}})
}
