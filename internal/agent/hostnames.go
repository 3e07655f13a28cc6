package agent

import (
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
	"tunctl/tunnel"
)

// hostNames are the hosts that a person can mean: the config's, and their ssh
// config's aliases.
func (a *Agent) hostNames() []string {
	aliases, err := tunnel.Aliases(a.sshConfig())
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

// knownHost refuses a name that nothing is known of: neither was it logged in to,
// nor is it written anywhere.
func (a *Agent) knownHost(name string) error {
	if slices.ContainsFunc(a.pool.Hosts(), func(h api.Host) bool { return h.Alias == name }) {
		return nil
	}
	names := a.hostNames()
	if slices.Contains(names, name) {
		return nil
	}
	e := &api.Error{Code: api.CodeUnknownHost, Message: fmt.Sprintf("no host %q", name)}
	if len(names) > 0 {
		e.Hint = "there is: " + strings.Join(suggest.NearestFirst(name, names), ", ")
	}
	return e
}
