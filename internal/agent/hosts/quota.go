package hosts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// knownQuota is what the quota commands of a site printed last. The user who changes the site
// wants to see the effect.
type knownQuota struct {
	commands string
	response api.QuotaResponse
}

// quotaCommands is what the host's site says about quotas now. It is the same as long as the
// site is not known.
func (h *Hosts) quotaCommands(host string) string {
	site, err := h.settings.Sites().ForHost(h.settings.Config().Host(host), h.KnownScheduler(host))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%q %+v", site.Balance, site.Readers)
}

// knownQuota is what is known about a host, if it is newer than Limits.Quota.
func (h *Hosts) knownQuota(host string) (api.QuotaResponse, bool) {
	last, _ := h.quotas.Load(host)
	known, ok := last.(knownQuota)
	return known.response, ok && known.commands == h.quotaCommands(host) && time.Since(known.response.At) < h.opt.Quota
}

func (h *Hosts) setQuota(host string, r api.QuotaResponse) {
	h.quotas.Store(host, knownQuota{h.quotaCommands(host), r})
}

// Quota runs the quota commands of the host's site, at most once an hour unless a
// user wants it now: they may be slow, and the numbers change slowly.
func (h *Hosts) Quota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	if known, ok := h.knownQuota(req.Host); ok && !req.Refresh {
		return known, nil
	}
	if err := h.AllowedAndConnected(ctx, req.Host); err != nil {
		return api.QuotaResponse{}, err
	}
	now, err := h.runQuotaCommands(ctx, req.Host)
	if err != nil {
		return api.QuotaResponse{}, err
	}
	h.setQuota(req.Host, now)
	h.store.SetBalances(api.HostBalances{Host: req.Host, Balances: now.Balances, At: now.At})
	return now, nil
}

// runQuotaCommands runs the quota commands of a host's site. Those that the host does not
// have are left out: a generic site lists more than one.
func (h *Hosts) runQuotaCommands(ctx context.Context, host string) (api.QuotaResponse, error) {
	out := api.QuotaResponse{Reports: []api.CommandReport{}}
	site, err := h.SiteOf(ctx, host, h.Watcher(host))
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
