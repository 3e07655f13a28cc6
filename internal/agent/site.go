package agent

import (
	"cmp"
	"context"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

// hostConfig is what the config has on a host.
func (a *Agent) hostConfig(host string) configs.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config.Host(host)
}

// sites are the presets there are now. They are read when needed: that is rare,
// and a person who writes one sees its effect at once.
func (a *Agent) sites() configs.Sites {
	sites, err := configs.LoadSites(configs.SitesFolder(a.opt.Paths.Config))
	if err != nil {
		a.log.Warn("cannot read a site file", "err", err)
	}
	return sites
}

// named is the site that the config names for a host, if any.
func (a *Agent) named(host string) (configs.Site, bool) {
	h := a.hostConfig(host)
	if h.Site == "" {
		return configs.Site{}, false
	}
	site, err := a.sites().Find(h.Site)
	if err != nil {
		a.log.Warn("a host names an unknown site", "host", host, "site", h.Site)
	}
	return site, err == nil
}

// atGate adds to a host's being out of reach what its site says must be true before
// SSH, such as a VPN, and whether it is.
func (a *Agent) atGate(ctx context.Context, host string, err error) error {
	e, ok := asAPI(err)
	if !ok || e.Code != api.CodeUnreachable {
		return err
	}
	site, ok := a.named(host)
	if !ok {
		return err
	}
	advice := site.AccessHint(a.pool.Host(host).Status().Hostname, func(address string) bool { return tunnel.Reachable(ctx, address) })
	if advice == "" {
		return err
	}
	told := *e
	told.Hint = advice
	return &told
}

// siteOf is a host's site: the named one, else the generic one of its scheduler.
func (a *Agent) siteOf(ctx context.Context, host string, jobs *jobwatch.Watcher) (configs.Site, error) {
	scheduler, err := jobs.Scheduler(ctx)
	if err != nil {
		return configs.Site{}, err
	}
	return a.sites().ForHost(a.hostConfig(host), scheduler)
}

// preset fills in what our config says of a host, and what the site asks for and the
// person's ssh_config leaves open.
func (a *Agent) preset(host string, s *sshconfig.Settings) {
	site, _ := a.named(host)
	preset(s, a.hostConfig(host), site)
}

func preset(s *sshconfig.Settings, own configs.Host, site configs.Site) {
	s.BeforeLogin, s.Transport, s.ReuseMaster = own.BeforeLogin, own.Transport, own.ReuseMaster
	if s.ServerAliveInterval == 0 && site.Keepalive > 0 {
		s.ServerAliveInterval = time.Duration(site.Keepalive)
	}
	s.IPQoS = cmp.Or(s.IPQoS, site.IPQoS)
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
				site, _ = sites.Find(own.Site) // one that is not known has nothing to add
			}
			preset(s, own, site)
		},
	}
}

// watchOptions say how to ask a host's scheduler: as the config says, else as the
// site asks for, which can only be gentler than our own limits.
func (a *Agent) watchOptions(host string) jobwatch.Options {
	o := jobwatch.Options{Scheduler: a.hostConfig(host).Scheduler, Limits: a.limits.Jobs, Log: a.log.With("host", host)}
	if site, ok := a.named(host); ok {
		o.Scheduler = cmp.Or(o.Scheduler, site.Scheduler)
		if !a.opt.Practice {
			o.Limits.Query = max(o.Limits.Query, time.Duration(site.Query))
		}
	}
	return o
}
