package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

// allSites are the sites that come with tunctl and the person's own. They are read
// again when a file has changed: a person who writes one sees its effect at once.
func (a *Agent) allSites() configs.Sites {
	folder, installed := configs.SitesFolder(a.opt.Paths.Config), a.opt.Paths.Sites
	now := foldersVersion(folder, installed)
	a.mu.Lock()
	sites, current := a.sites, now != "" && a.sitesVersion == now
	a.mu.Unlock()
	if current {
		return sites
	}
	sites, err := configs.LoadSites(folder, installed)
	problem := ""
	if err != nil {
		problem, now = err.Error(), "" // it may be readable the next time, without having changed
	}
	a.mu.Lock()
	isNew := problem != a.sitesProblem
	a.sites, a.sitesVersion, a.sitesProblem = sites, now, problem
	a.mu.Unlock()
	if isNew && err != nil { // once: every probe of a page reads the sites
		a.log.Warn("cannot read a site file", "err", err)
	}
	return sites
}

// mtimeStep is how far apart two edits have to be to get different modification times on
// any file system: FAT counts in steps of two seconds.
const mtimeStep = 3 * time.Second

// foldersVersion changes whenever a file in a folder does. It is "" while a file is so new
// that a second edit might not change its modification time.
func foldersVersion(folders ...string) string {
	version := "files:"
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			version += err.Error()
		}
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(folder, e.Name())) //nolint:gosec // of the file behind a link, in the person's own folder
			if err != nil {
				continue
			}
			if time.Since(info.ModTime()) < mtimeStep {
				return ""
			}
			version += fmt.Sprintf(" %s %d %d", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return version
}

// configuredSite is the site that the config names for a host, if any.
func (a *Agent) configuredSite(host string) (configs.Site, bool) {
	h := a.cfg().Host(host)
	if h.Site == "" {
		return configs.Site{}, false
	}
	site, err := a.allSites().Find(h.Site)
	if err != nil {
		a.log.Warn("a host names an unknown site", "host", host, "site", h.Site)
	}
	return site, err == nil
}

// withSiteHint adds to an unreachable host's error what its site requires before SSH,
// such as a VPN, and whether that is so.
func (a *Agent) withSiteHint(ctx context.Context, host string, err error) error {
	e, ok := asAPI(err)
	if !ok || e.Code != api.CodeUnreachable {
		return err
	}
	site, ok := a.configuredSite(host)
	if !ok {
		return err
	}
	advice := site.AccessHint(a.pool.Host(host).Status().Hostname, func(address string) bool { return tunnel.Reachable(ctx, address) })
	if advice == "" {
		return err
	}
	hinted := *e
	hinted.Hint = advice
	return &hinted
}

// siteOf is a host's site: the named one, else the generic one of its scheduler.
func (a *Agent) siteOf(ctx context.Context, host string, jobs *jobwatch.Watcher) (configs.Site, error) {
	scheduler, err := jobs.Scheduler(ctx)
	if err != nil {
		return configs.Site{}, err
	}
	return a.allSites().ForHost(a.cfg().Host(host), scheduler)
}

// preset fills in what the config says about a host, and the site's wishes that the
// person's ssh_config leaves open.
func (a *Agent) preset(host string, s *sshconfig.Settings) {
	site, _ := a.configuredSite(host)
	preset(s, a.cfg().Host(host), site)
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
		if e.Port != 0 && s.Port == 22 { // else the person's ssh_config has another
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
			var site configs.Site
			if own.Site != "" {
				site, _ = sites.Find(own.Site) // an unknown one adds nothing
			}
			preset(s, own, site)
		},
	}
}

// watchOptions say how to query a host's scheduler: as the config says, else as the
// site asks for, which can only be gentler than our own limits.
func (a *Agent) watchOptions(host string) jobwatch.Options {
	own := a.cfg().Host(host)
	o := jobwatch.Options{Host: host, Scheduler: own.Scheduler, Limits: a.limits.Jobs, Log: a.log.With("host", host)}
	site, ok := a.configuredSite(host)
	if ok {
		o.Scheduler = cmp.Or(o.Scheduler, site.Scheduler)
	}
	if ok && a.opt.Practice == nil && site.Query > 0 {
		o.Limits.Query = max(o.Limits.Query, time.Duration(site.Query))
		o.Limits.QuerySlow = max(o.Limits.QuerySlow, o.Limits.Query)
		o.Limits.QueryAfterSubmit = 0 // a site that asks for few queries gets no early one
	}
	if own.Private != "" || site.Private != "" {
		o.Private = site.PrivateFolder(own)
	}
	return o
}
