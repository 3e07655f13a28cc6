package hosts

import (
	"cmp"
	"context"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// WithSiteHint adds to an unreachable host's error what its site requires before SSH,
// such as a VPN, and whether that is so.
func (h *Hosts) WithSiteHint(ctx context.Context, host string, err error) error {
	site, ok := h.settings.Site(host)
	if !ok || !api.HasCode(err, api.CodeUnreachable) {
		return err
	}
	advice := site.AccessHint(h.Pool.Host(host).Status().Hostname, func(address string) bool { return tunnel.Reachable(ctx, address) })
	if advice == "" {
		return err
	}
	return api.ReplaceHint(err, "%s", advice)
}

// SiteOf is a host's site: the named one, else the generic one of its scheduler.
func (h *Hosts) SiteOf(ctx context.Context, host string, jobs *jobwatch.Watcher) (configs.Site, error) {
	scheduler, err := jobs.Scheduler(ctx)
	if err != nil {
		return configs.Site{}, err
	}
	return h.settings.Sites().ForHost(h.settings.Config().Host(host), scheduler)
}

// WatchOptions say how to query a host's scheduler: as the config says, else as the
// site asks for, which can only be gentler than our own limits.
func (h *Hosts) WatchOptions(host string) jobwatch.Options {
	own := h.settings.Config().Host(host)
	o := jobwatch.Options{Host: host, Scheduler: own.Scheduler, Limits: h.opt.Jobs, Log: h.log.With("host", host)}
	site, ok := h.settings.Site(host)
	if ok {
		o.Scheduler = cmp.Or(o.Scheduler, site.Scheduler)
	}
	if ok && h.opt.Practice == nil && site.Query > 0 {
		o.Limits.Query = max(o.Limits.Query, time.Duration(site.Query))
		o.Limits.QuerySlow = max(o.Limits.QuerySlow, o.Limits.Query)
		o.Limits.QueryAfterSubmit = 0 // a site that asks for few queries gets no early one
	}
	if own.Private != "" || site.Private != "" {
		o.Private = site.PrivateFolder(own)
	}
	return o
}

// KnownScheduler is the scheduler of a host, without a query; "" if it is not known yet.
func (h *Hosts) KnownScheduler(host string) string {
	if name := h.WatchOptions(host).Scheduler; name != "" {
		return name
	}
	for _, w := range h.watchers.of(host) {
		if name := w.KnownScheduler(); name != "" {
			return name
		}
	}
	return ""
}
