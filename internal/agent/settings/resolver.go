package settings

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/tunnel/sshconfig"
)

// Preset fills in what the config says about a host, and the site's wishes that the
// user's ssh_config leaves open.
func (s *Settings) Preset(host string, to *sshconfig.Settings) {
	site, _ := s.Site(host)
	preset(to, s.Config().Host(host), site)
}

func preset(s *sshconfig.Settings, own configs.Host, site configs.Site) {
	s.BeforeLogin, s.Transport = own.BeforeLogin, own.Transport
	if s.ServerAliveInterval == 0 && site.Keepalive > 0 {
		s.ServerAliveInterval = time.Duration(site.Keepalive)
	}
	s.IPQoS = cmp.Or(s.IPQoS, site.IPQoS)
	s.LoginPages, s.RenewCertificate = site.LoginPages, site.Certificate.Renew
	s.MaxSessions, s.Refusals = site.Limits.Sessions, site.Limits.Refusals
	s.LoginSpacing, s.RetryMin = time.Duration(site.Limits.LoginSpacing), time.Duration(site.Limits.Retry)
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
}

// Resolver reads hosts as an agent with that config, those sites and that ssh_config
// does, for commands that need no agent.
func Resolver(cfg *configs.Config, sites configs.Sites, sshConfig string) sshconfig.Resolver {
	return sshconfig.Resolver{
		SSHConfig: sshConfig,
		Target:    func(name string) string { return cfg.Host(name).SSH },
		Preset: func(name string, s *sshconfig.Settings) {
			own := cfg.Host(name)
			site, _ := sites.Find(own.Site) // an unknown one, or none, adds nothing
			preset(s, own, site)
		},
	}
}
