package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// knownQuota is what the quota commands of a site printed last. A person who changes the site
// wants to see the effect.
type knownQuota struct {
	commands string
	response api.QuotaResponse
}

// quotaCommands is what the host's site says about quotas now. It is the same as long as the
// site is not known.
func (a *Agent) quotaCommands(host string) string {
	site, err := a.allSites().ForHost(a.cfg().Host(host), a.knownScheduler(host))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%q %+v", site.Balance, site.Readers)
}

// knownQuota is what is known about a host, if it is newer than Limits.Quota.
func (a *Agent) knownQuota(host string) (api.QuotaResponse, bool) {
	commands := a.quotaCommands(host)
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.quotas[host]
	return known.response, ok && known.commands == commands && time.Since(known.response.At) < a.limits.Quota
}

func (a *Agent) setQuota(host string, r api.QuotaResponse) {
	commands := a.quotaCommands(host)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quotas == nil {
		a.quotas = map[string]knownQuota{}
	}
	a.quotas[host] = knownQuota{commands, r}
}

// handleQuota runs the quota commands of the host's site, at most once an hour unless a
// person wants it now: they may be slow, and the numbers change slowly.
func (a *Agent) handleQuota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	if known, ok := a.knownQuota(req.Host); ok && !req.Refresh {
		return known, nil
	}
	if err := a.allowedAndConnected(ctx, req.Host); err != nil {
		return api.QuotaResponse{}, err
	}
	now, err := a.runQuotaCommands(ctx, req.Host)
	if err != nil {
		return api.QuotaResponse{}, err
	}
	a.setQuota(req.Host, now)
	a.store.SetBalances(api.HostBalances{Host: req.Host, Balances: now.Balances, At: now.At})
	return now, nil
}

// runQuotaCommands runs the quota commands of a host's site. Those that the host does not
// have are left out: a generic site lists more than one.
func (a *Agent) runQuotaCommands(ctx context.Context, host string) (api.QuotaResponse, error) {
	out := api.QuotaResponse{Reports: []api.CommandReport{}}
	site, err := a.siteOf(ctx, host, a.jobWatcher(host))
	if err != nil {
		return out, err
	}
	out.Site = site.Name
	for _, command := range site.Balance {
		const missing = 127
		program, _, _ := strings.Cut(command, " ")
		script := fmt.Sprintf("command -v %s >/dev/null 2>&1 || exit %d\n%s 2>&1", program, missing, command)
		res, err := remote.On(runner{host: a.pool.Host(host)}).Login(ctx, script)
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
