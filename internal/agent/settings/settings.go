// Package settings has the user's config and sites as their files are now. A config with errors
// never replaces a valid one. It writes nothing, and does not know who uses them.
package settings

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/jobwatch/detect"
)

// Settings are what the user has written, read from files that may change at any time.
type Settings struct {
	paths     home.Paths
	sshConfig string
	log       *slog.Logger
	sites     sites

	mark string // of the config file when Reload last read it

	mu      sync.Mutex
	config  *configs.Config
	problem *api.Problem
}

// Open reads the config. One with errors is reported by Problem. sshConfig replaces
// ~/.ssh/config, whatever the config says; "" if nothing does.
func Open(paths home.Paths, sshConfig string, log *slog.Logger) *Settings {
	s := &Settings{paths: paths, sshConfig: sshConfig, log: log, config: &configs.Config{Path: paths.Config}}
	s.mark = configs.Digest(paths.Config)
	_ = s.read() // Problem has it
	return s
}

// Config is the config as it is now. It is never changed, only replaced.
func (s *Settings) Config() *configs.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// Problem is what is wrong with the config file; nil if nothing is.
func (s *Settings) Problem() *api.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// Valid returns an error while the config has errors: a new session would not use what the
// user has just written.
func (s *Settings) Valid() error {
	problem := s.Problem()
	if problem == nil {
		return nil
	}
	return api.Errorf(api.CodeConfig, "%s", problem.Message).
		WithHint("fix the file, then try again; what is up stays up meanwhile")
}

// Reload reads the config file again if it has changed. If the file has errors, the last valid
// config stays in use, and the error is returned once. Only one call may run at a time.
func (s *Settings) Reload() (changed bool, err error) {
	// The mark is taken before the file is read: a change in between is seen next time.
	mark, changed := configs.ChangedDigest(s.paths.Config, s.mark)
	if !changed {
		return false, nil
	}
	s.mark = mark
	return true, s.read()
}

// read reads the config file. It returns an error that is not known yet.
func (s *Settings) read() error {
	cfg, err := configs.Load(s.paths.Config)
	if errors.Is(err, fs.ErrNotExist) {
		cfg, err = &configs.Config{Path: s.paths.Config}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.problem != nil {
			s.log.Info("the config is valid again", "file", s.paths.Config)
		}
		s.config, s.problem = cfg, nil
		return nil
	}
	if s.problem != nil && s.problem.Message == err.Error() {
		return nil
	}
	s.problem = &api.Problem{Message: err.Error(), Since: time.Now()}
	s.log.Warn("the config has errors; the last valid one stays in use", "err", err)
	return err
}

// SSHConfig is the file that replaces ~/.ssh/config; "" if none does.
func (s *Settings) SSHConfig() string { return cmp.Or(s.sshConfig, s.Config().SSHConfig) }

// Detector finds servers in a log, those of the config's apps too.
func (s *Settings) Detector(app string) *detect.Detector { return detect.New(app, Apps(s.Config())...) }

// Apps are the user's own apps.
func Apps(cfg *configs.Config) []detect.App {
	apps := make([]detect.App, len(cfg.Apps))
	for i, a := range cfg.Apps {
		apps[i] = detect.App(a)
	}
	return apps
}
