package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tunctl/internal/api"
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
	address, err := a.address(ctx, host)
	if err != nil || isPractice(address) {
		return err
	}
	return &api.Error{
		Code:    api.CodeUsage,
		Message: fmt.Sprintf("this agent connects to the practice cluster only: %s (%s) is not part of it", host, address),
		Hint:    hostHint(host, a.practiceHosts(ctx)),
	}
}

// address is where ssh would go for a host.
func (a *Agent) address(ctx context.Context, host string) (string, error) {
	settings, err := a.pool.Settings(ctx, host)
	if err != nil {
		return "", err
	}
	return settings.Hostname, nil
}

// isPractice reports whether an address can only be a practice cluster's.
func isPractice(address string) bool {
	addr, err := netip.ParseAddr(address)
	return address == "localhost" || strings.HasSuffix(address, nobodysDomain) || err == nil && (addr.IsLoopback() || labNetwork.Contains(addr))
}

// practiceHosts are the hosts that a person can mean here.
func (a *Agent) practiceHosts(ctx context.Context) []string {
	return slices.DeleteFunc(a.hostNames(), func(name string) bool {
		address, err := a.address(ctx, name)
		return err != nil || !isPractice(address)
	})
}
