package agent

import (
	"context"
	"fmt"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// handleQuota runs what the host's site has for balances and quotas. Of a generic
// site's programs, those that the host does not have are left out.
func (a *Agent) handleQuota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	out := api.QuotaResponse{Reports: []api.CommandReport{}}
	if err := a.connected(ctx, req.Host); err != nil {
		return out, err
	}
	site, err := a.siteOf(ctx, req.Host, a.watcher(req.Host))
	if err != nil {
		return out, err
	}
	out.Site = site.Name
	for _, command := range site.Balance {
		report, there, err := a.balance(ctx, req.Host, command)
		if err != nil {
			return out, err
		}
		if there {
			out.Reports = append(out.Reports, report)
		}
	}
	if len(out.Reports) == 0 {
		return out, &api.Error{
			Code: api.CodeFailed, Message: fmt.Sprintf("no quota command of site %q is installed on %s", site.Name, req.Host),
			Hint: "set balance = [\"COMMAND\"] in a site file of your own: `tunctl sites --help` says where",
		}
	}
	return out, nil
}

// balance runs one program, if the host has it.
func (a *Agent) balance(ctx context.Context, host, command string) (api.CommandReport, bool, error) {
	const missing = 127
	program, _, _ := strings.Cut(command, " ")
	script := fmt.Sprintf("command -v %s >/dev/null 2>&1 || exit %d\n%s 2>&1", program, missing, command)
	res, err := jobwatch.RunLogin(ctx, runner{a.pool.Host(host)}, script)
	if err != nil {
		return api.CommandReport{}, false, err
	}
	return api.CommandReport{Command: command, Output: strings.TrimRight(api.Sanitize(string(res.Stdout)), "\n"), Exit: res.Exit}, res.Exit != missing, nil
}
