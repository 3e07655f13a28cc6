package hosts

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

// names are the hosts of the config and the aliases of the ssh config.
func (h *Hosts) names() []string {
	aliases, err := sshconfig.Aliases(h.settings.SSHConfig())
	if err != nil {
		h.log.Debug("the ssh config's aliases cannot be read", "err", err)
	}
	return h.settings.Config().HostNames(aliases...)
}

// spelling is what is known about the name of a host that cannot be reached. A name that
// only a session of the config has may be mistyped there.
func (h *Hosts) spelling(name string) tunnel.Spelling {
	names := h.names()
	remembered := h.store.KnowsHost(name)
	s := tunnel.Spelling{Written: remembered || slices.Contains(names, name)}
	sections, _ := sshconfig.Aliases(h.settings.SSHConfig()) // names has logged the error
	for _, own := range h.settings.Config().Hosts {
		sections = append(sections, own.Name)
	}
	if !remembered && !slices.Contains(sections, name) {
		s.Meant = nearestHost(name, slices.DeleteFunc(names, func(n string) bool { return n == name }))
	}
	return s
}

// nearestHost is the host that the user probably meant, with the user that they typed; ""
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

// All are the hosts that were asked for, without those that do not exist: a user mistyped the
// name, and knows it. So does who gave up a host that was never logged in to.
func (h *Hosts) All() []api.Host {
	configured := h.settings.Config().HostNames()
	return slices.DeleteFunc(h.Pool.Hosts(), func(x api.Host) bool {
		return IsUnknown(x) || x.State == api.HostDown && !slices.Contains(configured, x.Alias) && !h.store.KnowsHost(x.Alias)
	})
}

// IsUnknown reports whether no host has that name.
func IsUnknown(h api.Host) bool { return h.Code == api.CodeUnknownHost || h.Code == api.CodeUsage }

// Known returns an error for a name that was never logged in to and is in no config.
func (h *Hosts) Known(name string) error {
	if slices.ContainsFunc(h.All(), func(x api.Host) bool { return x.Alias == name }) {
		return nil
	}
	names := h.names()
	if slices.Contains(names, name) {
		return nil
	}
	return api.Errorf(api.CodeUnknownHost, "no host %q", name).WithHint("%s", hostHint(name, names))
}

// Allowed returns an error for a host outside the practice cluster, if the agent is
// confined to that.
func (h *Hosts) Allowed(ctx context.Context, host string) error {
	if h.opt.Practice == nil {
		return nil
	}
	address, err := h.address(ctx, host)
	if err != nil || h.opt.Practice(address) {
		return err
	}
	practice := slices.DeleteFunc(h.names(), func(name string) bool {
		address, err := h.address(ctx, name)
		return err != nil || !h.opt.Practice(address)
	})
	return api.Errorf(api.CodeUsage, "this agent connects to the practice cluster only: %s (%s) is not part of it", host, address).
		WithHint("%s", hostHint(host, practice))
}

// address is where ssh would connect for a host.
func (h *Hosts) address(ctx context.Context, host string) (string, error) {
	settings, err := h.Pool.Settings(ctx, host)
	if err != nil {
		return "", err
	}
	return settings.Hostname, nil
}
