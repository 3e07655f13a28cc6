// Package settings has the user's config and sites as their files are now. A config with errors
// never replaces a valid one. It writes nothing, and does not know who uses them.
package settings

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel/sshconfig"
)

// Settings are what the user has written, read from files that may change at any time.
type Settings struct {
	paths     home.Paths
	sshConfig string
	log       *slog.Logger

	mark string // of the files when they were last read
	now  atomic.Pointer[content]
}

// content is what the files say.
type content struct {
	config  *configs.Config
	problem *api.Problem
	sites   func() configs.Sites // reads them once
}

// Open reads the config. One with errors is reported by Problem. sshConfig replaces
// ~/.ssh/config, whatever the config says; "" if nothing does.
func Open(paths home.Paths, sshConfig string, log *slog.Logger) *Settings {
	s := &Settings{paths: paths, sshConfig: sshConfig, log: log}
	s.now.Store(&content{config: &configs.Config{Path: paths.Config}})
	s.mark = configs.Digest(paths.Config, s.folders()...)
	_ = s.read() // Problem has it
	return s
}

// Config is the config as it is now. It is never changed, only replaced.
func (s *Settings) Config() *configs.Config { return s.now.Load().config }

// Problem is what is wrong with the config file; nil if nothing is.
func (s *Settings) Problem() *api.Problem { return s.now.Load().problem }

// Valid returns an error while the config has errors, or the answers of the session that is to start: it
// would not use what the user has just written.
func (s *Settings) Valid(session string) error {
	err := configs.CheckAnswers(s.Config().Path, session, s.Sites())
	if problem := s.Problem(); problem != nil {
		err = errors.New(problem.Message)
	}
	if err == nil {
		return nil
	}
	return api.Errorf(api.CodeConfig, "%w", err).WithHint("fix the file, then try again; what is up stays up meanwhile")
}

// folders are those of the user's own sites and of the installed ones.
func (s *Settings) folders() []string {
	return []string{configs.SitesFolder(s.paths.Config), s.paths.Sites}
}

// Reload reads the config file and the sites again if one has changed. If the config has errors, the last
// valid one stays in use, and the error is returned once. Only one call may run at a time.
func (s *Settings) Reload() (changed bool, err error) {
	// The mark is taken before the files are read: a change in between is seen next time.
	mark, changed := configs.ChangedDigest(s.mark, s.paths.Config, s.folders()...)
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
	next := *s.now.Load()
	defer s.now.Store(&next)
	was := next.problem
	next.sites = sync.OnceValue(s.readSites)
	if err == nil {
		if was != nil {
			s.log.Info("the config is valid again", "file", s.paths.Config)
		}
		next.config, next.problem = cfg, nil
		return nil
	}
	if was != nil && was.Message == err.Error() {
		return nil
	}
	next.problem = &api.Problem{Message: err.Error(), Since: time.Now()}
	s.log.Warn("the config has errors; the last valid one stays in use", "err", err)
	return err
}

// SSHConfig is the file that replaces ~/.ssh/config; "" if none does.
func (s *Settings) SSHConfig() string { return cmp.Or(s.sshConfig, s.Config().SSHConfig) }

// Detector finds servers in a log, those of the config's apps too.
func (s *Settings) Detector(app string) *detect.Detector { return detect.New(app, Apps(s.Config())...) }

// Apps are the user's own apps.
func Apps(cfg *configs.Config) []detect.App {
	return lists.Map(cfg.Apps, func(a configs.App) detect.App { return detect.App(a) })
}

// Key is the private key of tunctl's own for an account; it need not exist.
func (s *Settings) Key(account *sshconfig.Settings) string {
	return s.paths.Key(account.User, account.Hostname, account.Port)
}

// preset fills in what the config says about a host, and the site's wishes that the
// user's ssh_config leaves open.
func preset(s *sshconfig.Settings, own configs.Host, site configs.Site, paths home.Paths) {
	s.BeforeLogin, s.Transport = own.BeforeLogin, own.Transport
	if s.ServerAliveInterval == 0 && site.Keepalive > 0 {
		s.ServerAliveInterval = time.Duration(site.Keepalive)
	}
	s.IPQoS = cmp.Or(s.IPQoS, site.IPQoS)
	s.LoginPages, s.RenewCertificate = site.LoginPages, site.Certificate.Renew
	s.MaxSessions, s.Refusals = site.Limits.Sessions, site.Limits.Refusals
	s.LoginSpacing, s.RetryMin = time.Duration(site.Limits.LoginSpacing), time.Duration(site.Limits.Retry)
	s.HostKeysPage = site.HostKeysPage
	if len(site.Help) > 0 {
		s.SiteHelp = site.Help[0]
	}
	if e, ok := site.EntranceAt(s.Hostname); ok {
		s.PublishedHostKeys = e.HostKeys
		if e.Port != 0 && s.Port == 22 { // else the user's ssh_config has another
			s.Port = e.Port
		}
		if e.Jump != "" && len(s.ProxyJump) == 0 && s.ProxyCommand == "" {
			s.ProxyJump = []string{e.Jump}
			if !strings.Contains(e.Jump, "@") {
				s.ProxyJump[0] = s.User + "@" + e.Jump // the same account opens both
			}
		}
	}
	if file := configs.LocalPath(site.Certificate.File); file != "" && len(s.CertificateFiles) == 0 {
		s.CertificateFiles = []string{file}
		if key := site.Certificate.Key(); !slices.Contains(s.IdentityFiles, key) {
			s.IdentityFiles = append([]string{key}, s.IdentityFiles...)
		}
	}
	key := paths.Key(s.User, s.Hostname, s.Port)
	if _, err := os.Stat(key); err == nil {
		s.OwnKey = key
	}
}

// Resolver reads hosts as the config and the sites are now.
func (s *Settings) Resolver() sshconfig.Resolver {
	return Resolver(s.Config(), s.Sites(), s.SSHConfig(), s.paths)
}

// Resolver reads hosts as an agent with that config, those sites and that ssh_config
// does, for commands that need no agent.
func Resolver(cfg *configs.Config, sites configs.Sites, sshConfig string, paths home.Paths) sshconfig.Resolver {
	return sshconfig.Resolver{
		SSHConfig: sshConfig,
		Target:    func(name string) string { return cfg.Host(name).SSH },
		Preset: func(name string, s *sshconfig.Settings) {
			own := cfg.Host(name)
			site, _ := sites.Find(own.Site) // an unknown one, or none, adds nothing
			preset(s, own, site, paths)
		},
	}
}

// Sites are the sites that come with tunctl, the installed ones and the user's own.
func (s *Settings) Sites() configs.Sites { return s.now.Load().sites() }

func (s *Settings) readSites() configs.Sites {
	list, err := configs.LoadSites(configs.SitesFolder(s.paths.Config), s.paths.Sites)
	if err != nil {
		s.log.Warn("cannot read a site file", "err", err)
	}
	return list
}

// Site is the site that the config names for a host, if any.
func (s *Settings) Site(host string) (configs.Site, bool) {
	h := s.Config().Host(host)
	if h.Site == "" {
		return configs.Site{}, false
	}
	site, err := s.Sites().Find(h.Site)
	if err != nil {
		s.log.Warn("a host names an unknown site", "host", host, "site", h.Site)
	}
	return site, err == nil
}
