package main

import (
	"context"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/tunnel/sshconfig"
)

// maxAliases is how many of the ssh config's hosts are looked up: each may cost a
// run of ssh.
const maxAliases = 40

// findAliases collects the hosts that a person has set up for ssh.
func (i *interview) findAliases() {
	names, err := sshconfig.Aliases(sshConfigFile(i.cfg))
	if err != nil {
		i.term.Say("tunctl: %v", err)
	}
	names = append(names, puttyHosts()...)
	slices.Sort(names)
	i.aliases = slices.Compact(names)
}

// address is the host that ssh would dial for a destination.
func (i *interview) address(ctx context.Context, destination string) string {
	s, err := sshconfig.Resolver{SSHConfig: sshConfigFile(i.cfg)}.Settings(ctx, destination)
	if err != nil {
		return ""
	}
	return strings.ToLower(s.Hostname)
}

// aliasOf is what the ssh config calls an address, if it does.
func (i *interview) aliasOf(ctx context.Context, address string) string {
	for _, alias := range i.aliases[:min(len(i.aliases), maxAliases)] {
		if i.address(ctx, alias) == strings.ToLower(address) {
			return alias
		}
	}
	return ""
}

// siteAt is the site that a destination is an entrance of.
func (i *interview) siteAt(ctx context.Context, destination string) (configs.Site, bool) {
	address := i.address(ctx, destination)
	for _, s := range i.sites {
		if slices.ContainsFunc(s.Entrances, func(e configs.Entrance) bool { return strings.EqualFold(e.Host, address) }) {
			return s, true
		}
	}
	return configs.Site{}, false
}
