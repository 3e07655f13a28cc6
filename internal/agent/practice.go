package agent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

// labNetwork are the addresses of the lab's own clusters; see internal/lab/real.
var labNetwork = netip.MustParsePrefix("10.77.0.0/16")

// nobodysDomain is one that no host of others can be in (RFC 6761).
const nobodysDomain = ".test"

// allowed refuses hosts that belong to others while the limits are those of the
// practice cluster: they are too quick for anybody's login node.
func (a *Agent) allowed(ctx context.Context, host string) error {
	if !a.opt.Practice {
		return nil
	}
	settings, err := tunnel.Resolve(ctx, a.sshTarget(host), tunnel.ResolveOptions{SSHConfig: a.sshConfig()})
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(settings.Hostname)
	if settings.Hostname == "localhost" || strings.HasSuffix(settings.Hostname, nobodysDomain) || err == nil && (addr.IsLoopback() || labNetwork.Contains(addr)) {
		return nil
	}
	return &api.Error{
		Code:    api.CodeUsage,
		Message: fmt.Sprintf("TUNCTL_PRACTICE is set, and %s (%s) is no practice cluster", host, settings.Hostname),
		Hint:    "unset TUNCTL_PRACTICE and restart the agent",
	}
}
