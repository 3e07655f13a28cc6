package agent

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// quotas are what the quota commands of the hosts printed last.
type quotas struct {
	mu    sync.Mutex
	known map[quotaKey]api.QuotaResponse
}

// quotaKey is a host, with what its site says about quotas then: a person who changes the site
// wants to see the effect.
type quotaKey struct{ host, commands string }

// quotaKey is that of a host now. It is the same as long as the site is not known.
func (a *Agent) quotaKey(host string) quotaKey {
	site, err := a.allSites().ForHost(a.hostConfig(host), a.knownScheduler(host))
	if err != nil {
		return quotaKey{host: host}
	}
	commands := strings.Join(site.Balance, "\n")
	for _, r := range site.Readers {
		commands += fmt.Sprintf("\n%+v", r)
	}
	return quotaKey{host, commands}
}

// newerThan is what is known about a host, if it is newer than age.
func (q *quotas) newerThan(age time.Duration, key quotaKey) (api.QuotaResponse, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known, ok := q.known[key]
	return known, ok && time.Since(known.At) < age
}

func (q *quotas) set(key quotaKey, r api.QuotaResponse) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.known, func(k quotaKey, _ api.QuotaResponse) bool { return k.host == key.host })
	if q.known == nil {
		q.known = map[quotaKey]api.QuotaResponse{}
	}
	q.known[key] = r
}

// handleQuota runs the quota commands of the host's site, at most once an hour unless a
// person wants it now: they may be slow, and the numbers change slowly.
func (a *Agent) handleQuota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	if known, ok := a.quotas.newerThan(a.limits.Quota, a.quotaKey(req.Host)); ok && !req.Refresh {
		return known, nil
	}
	if err := a.allowedAndConnected(ctx, req.Host); err != nil {
		return api.QuotaResponse{}, err
	}
	now, err := a.runQuotaCommands(ctx, req.Host)
	if err != nil {
		return api.QuotaResponse{}, err
	}
	a.quotas.set(a.quotaKey(req.Host), now)
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
		report, installed, err := a.runQuotaCommand(ctx, host, command)
		if err != nil {
			return out, err
		}
		if !installed {
			continue
		}
		read := site.Balances(command, report.Output)
		report.Read = len(read) > 0
		out.Reports = append(out.Reports, report)
		out.Balances = append(out.Balances, read...)
	}
	if len(out.Reports) == 0 {
		return out, api.Errorf(api.CodeFailed, "no quota command of site %q is installed on %s", site.Name, host).
			WithHint("set balance = [\"COMMAND\"] in a site file of your own: `tunctl sites --help` says where")
	}
	out.At = time.Now()
	return out, nil
}

// runQuotaCommand runs one command, if the host has it.
func (a *Agent) runQuotaCommand(ctx context.Context, host, command string) (api.CommandReport, bool, error) {
	const missing = 127
	program, _, _ := strings.Cut(command, " ")
	script := fmt.Sprintf("command -v %s >/dev/null 2>&1 || exit %d\n%s 2>&1", program, missing, command)
	res, err := jobwatch.RunLogin(ctx, runner{a.pool.Host(host)}, script)
	if err != nil {
		return api.CommandReport{}, false, err
	}
	return api.CommandReport{Command: command, Output: strings.TrimRight(api.Sanitize(string(res.Stdout)), "\n"), Exit: res.Exit}, res.Exit != missing, nil
}
