package hosts

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// WithSiteHint adds to an unreachable host's error what its site requires before SSH,
// such as a VPN, and whether that is so.
func (h *Hosts) WithSiteHint(ctx context.Context, host string, err error) error {
	site, ok := h.opt.Settings.Site(host)
	if !ok || !api.HasCode(err, api.CodeUnreachable) {
		return err
	}
	advice := site.AccessHint(h.Pool.Host(host).Status().Hostname, func(address string) bool { return tunnel.Reachable(ctx, address) })
	if advice == "" {
		return err
	}
	return api.ReplaceHint(err, "%s", advice)
}

// WatchOptions say how to query a host's scheduler: as the config says, else as the
// site asks for, which can only be gentler than our own limits.
func (h *Hosts) WatchOptions(host string) jobwatch.Options {
	own := h.opt.Settings.Config().Host(host)
	o := jobwatch.Options{Host: host, Scheduler: own.Scheduler, Limits: h.opt.Jobs, Log: h.opt.Log.With("host", host)}
	site, ok := h.opt.Settings.Site(host)
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

// Quota runs the quota commands of the host's site, at most once an hour unless a
// user wants it now: they may be slow, and the numbers change slowly.
func (h *Hosts) Quota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	known, _ := h.quotas.Load(req.Host)
	if last, ok := known.(api.QuotaResponse); ok && !req.Refresh && time.Since(last.At) < h.opt.Quota {
		return last, nil
	}
	if err := h.Connected(ctx, req.Host); err != nil {
		return api.QuotaResponse{}, err
	}
	now, err := h.runQuotaCommands(ctx, req.Host)
	if err != nil {
		return api.QuotaResponse{}, err
	}
	h.quotas.Store(req.Host, now)
	h.opt.Store.SetBalances(api.HostBalances{Host: req.Host, Balances: now.Balances, At: now.At})
	return now, nil
}

// runQuotaCommands runs the quota commands of a host's site. Those that the host does not
// have are left out: a generic site lists more than one.
func (h *Hosts) runQuotaCommands(ctx context.Context, host string) (api.QuotaResponse, error) {
	out := api.QuotaResponse{Reports: []api.CommandReport{}}
	scheduler, err := h.Watcher(host).Scheduler(ctx)
	if err != nil {
		return out, err
	}
	site, err := h.opt.Settings.Sites().ForHost(h.opt.Settings.Config().Host(host), scheduler)
	if err != nil {
		return out, err
	}
	out.Site = site.Name
	for _, command := range site.Balance {
		const missing = 127
		program, _, _ := strings.Cut(command, " ")
		script := fmt.Sprintf("command -v %s >/dev/null 2>&1 || exit %d\n%s 2>&1", program, missing, command)
		res, err := remote.On(Runner{Host: h.Pool.Host(host)}).Login(ctx, script)
		if err != nil {
			return out, err
		}
		if res.Exit == missing {
			continue
		}
		text := strings.TrimRight(api.Sanitize(string(res.Stdout)), "\n")
		read := site.Balances(command, text)
		out.Reports = append(out.Reports, api.CommandReport{Command: command, Output: text, Exit: res.Exit, Read: len(read) > 0})
		out.Balances = append(out.Balances, read...)
	}
	if len(out.Reports) == 0 {
		return out, api.Errorf(api.CodeFailed, "no quota command of site %q is installed on %s", site.Name, host).
			WithHint("set balance = [\"COMMAND\"] in a site file of your own: `tunctl sites --help` says where")
	}
	out.At = time.Now()
	return out, nil
}
