package agent

import (
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

// hostNames are the hosts that a person can mean: the config's, and their ssh
// config's aliases.
func (a *Agent) hostNames() []string {
	aliases, err := sshconfig.Aliases(a.sshConfig())
	if err != nil {
		a.log.Debug("the ssh config's aliases cannot be read", "err", err)
	}
	a.mu.Lock()
	names := a.config.HostNames()
	a.mu.Unlock()
	for _, alias := range aliases {
		if !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}

// spelling says what is known of a host's name that cannot be reached. A name that only
// a session of the config has may be mistyped there.
func (a *Agent) spelling(name string) tunnel.Spelling {
	names := a.hostNames()
	remembered := a.store.KnowsHost(name)
	s := tunnel.Spelling{Written: remembered || slices.Contains(names, name)}
	if !remembered && !slices.Contains(a.sectionNames(), name) {
		s.Meant = nearestHost(name, slices.DeleteFunc(names, func(n string) bool { return n == name }))
	}
	return s
}

// sectionNames are the hosts that have a section of the config or of the ssh config.
func (a *Agent) sectionNames() []string {
	a.mu.Lock()
	hosts := a.config.Hosts
	a.mu.Unlock()
	names, _ := sshconfig.Aliases(a.sshConfig()) // hostNames has told why they cannot be read
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names
}

// meant is the host of names that a person probably meant, with the user they gave; ""
// where none is near.
func nearestHost(typed string, names []string) string {
	i := strings.LastIndex(typed, "@") + 1
	near := suggest.Nearest(typed[i:], names)
	if len(near) == 0 {
		return ""
	}
	return typed[:i] + near[0]
}

// hostHint is the hint for a name that is none of those: the one that was probably
// meant, or else all of them.
func hostHint(typed string, names []string) string {
	if near := nearestHost(typed, names); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(names) == 0 {
		return ""
	}
	return "available: " + strings.Join(names, ", ")
}

// listed leaves out the hosts that turned out to be no hosts: a person mistyped a name,
// and was told.
func withoutUnknown(hosts []api.Host) []api.Host {
	return slices.DeleteFunc(hosts, isUnknownHost)
}

// isUnknownHost reports whether a name cannot be that of a host, such as "", or is not.
func isUnknownHost(h api.Host) bool { return h.Code == api.CodeUnknownHost || h.Code == api.CodeUsage }

// knownHost refuses a name that nothing is known of: neither was it logged in to,
// nor is it written anywhere.
func (a *Agent) knownHost(name string) error {
	if slices.ContainsFunc(withoutUnknown(a.pool.Hosts()), func(h api.Host) bool { return h.Alias == name }) {
		return nil
	}
	names := a.hostNames()
	if slices.Contains(names, name) {
		return nil
	}
	return &api.Error{Code: api.CodeUnknownHost, Message: fmt.Sprintf("no host %q", name), Hint: hostHint(name, names)}
}
