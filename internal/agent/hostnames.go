package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

// hostNames are the hosts of the config and the aliases of the ssh config.
func (a *Agent) hostNames() []string {
	aliases, err := sshconfig.Aliases(a.sshConfig())
	if err != nil {
		a.log.Debug("the ssh config's aliases cannot be read", "err", err)
	}
	names := a.cfg().HostNames()
	for _, alias := range aliases {
		if !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}

// spelling is what is known about the name of a host that cannot be reached. A name that
// only a session of the config has may be mistyped there.
func (a *Agent) spelling(name string) tunnel.Spelling {
	names := a.hostNames()
	remembered := a.store.KnowsHost(name)
	s := tunnel.Spelling{Written: remembered || slices.Contains(names, name)}
	sections, _ := sshconfig.Aliases(a.sshConfig()) // hostNames has logged the error
	for _, h := range a.cfg().Hosts {
		sections = append(sections, h.Name)
	}
	if !remembered && !slices.Contains(sections, name) {
		s.Meant = nearestHost(name, slices.DeleteFunc(names, func(n string) bool { return n == name }))
	}
	return s
}

// nearestHost is the host that a person probably meant, with the user that they typed; ""
// if no name is near.
func nearestHost(typed string, names []string) string {
	i := strings.LastIndex(typed, "@") + 1
	near := suggest.Nearest(typed[i:], names)
	if len(near) == 0 {
		return ""
	}
	return typed[:i] + near[0]
}

// hostHint is the hint for an unknown name: the nearest of names, or else all of them.
func hostHint(typed string, names []string) string {
	if near := nearestHost(typed, names); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(names) == 0 {
		return ""
	}
	return "available: " + strings.Join(names, ", ")
}

// withoutUnknown removes hosts that do not exist: a person mistyped the name, and knows
// it.
func withoutUnknown(hosts []api.Host) []api.Host {
	return slices.DeleteFunc(hosts, isUnknownHost)
}

// isUnknownHost reports whether no host has that name.
func isUnknownHost(h api.Host) bool { return h.Code == api.CodeUnknownHost || h.Code == api.CodeUsage }

// knownHost returns an error for a name that was never logged in to and is in no config.
func (a *Agent) knownHost(name string) error {
	if slices.ContainsFunc(withoutUnknown(a.pool.Hosts()), func(h api.Host) bool { return h.Alias == name }) {
		return nil
	}
	names := a.hostNames()
	if slices.Contains(names, name) {
		return nil
	}
	return api.Errorf(api.CodeUnknownHost, "no host %q", name).WithHint("%s", hostHint(name, names))
}

// allowed returns an error for a host outside the practice cluster, if the agent is
// confined to that.
func (a *Agent) allowed(ctx context.Context, host string) error {
	if a.opt.Practice == nil {
		return nil
	}
	address, err := a.address(ctx, host)
	if err != nil || a.opt.Practice(address) {
		return err
	}
	practice := slices.DeleteFunc(a.hostNames(), func(name string) bool {
		address, err := a.address(ctx, name)
		return err != nil || !a.opt.Practice(address)
	})
	return api.Errorf(api.CodeUsage, "this agent connects to the practice cluster only: %s (%s) is not part of it", host, address).
		WithHint("%s", hostHint(host, practice))
}

// address is where ssh would connect for a host.
func (a *Agent) address(ctx context.Context, host string) (string, error) {
	settings, err := a.pool.Settings(ctx, host)
	if err != nil {
		return "", err
	}
	return settings.Hostname, nil
}
