package main

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/tunnel/sshconfig"
)

// maxAliases is how many of the ssh config's hosts are looked up: each may run ssh.
const maxAliases = 40

// findAliases collects the hosts that the person has set up for ssh.
func (i *interview) findAliases() {
	names, err := sshconfig.Aliases(sshConfigFile(i.cfg))
	if err != nil {
		i.Say("tunctl: %v", err)
	}
	names = append(names, puttyHosts()...)
	slices.Sort(names)
	i.aliases = slices.Compact(names)
}

// resolve is the host that ssh would dial for a destination.
func (i *interview) resolve(ctx context.Context, destination string) string {
	s, err := sshconfig.Resolver{SSHConfig: sshConfigFile(i.cfg)}.Settings(ctx, destination)
	if err != nil {
		return ""
	}
	return strings.ToLower(s.Hostname)
}

// aliasOf is the name of an address in the ssh config, if it has one.
func (i *interview) aliasOf(ctx context.Context, address string) string {
	for _, alias := range i.aliases[:min(len(i.aliases), maxAliases)] {
		if i.resolve(ctx, alias) == strings.ToLower(address) {
			return alias
		}
	}
	return ""
}

// siteAt is the site with a destination among its login nodes.
func (i *interview) siteAt(ctx context.Context, destination string) (configs.Site, bool) {
	address := i.resolve(ctx, destination)
	for _, s := range i.sites {
		if _, ok := s.EntranceAt(address); ok {
			return s, true
		}
	}
	return configs.Site{}, false
}

// puttySession is the destination of a saved PuTTY session.
type puttySession struct {
	protocol, host, user string
	port                 uint64
}

// destination is the session's host as ssh takes it; "" if it does not use SSH or has no host,
// as PuTTY's default settings. A user in the host's name takes precedence, as in PuTTY.
func (s puttySession) destination() string {
	host := strings.TrimSpace(s.host)
	if s.protocol != "ssh" || host == "" {
		return ""
	}
	user := s.user
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, host = host[:at], host[at+1:]
	}
	if user != "" {
		user += "@"
	}
	if s.port == 0 || s.port == 22 {
		return user + host
	}
	return "ssh://" + user + net.JoinHostPort(host, strconv.FormatUint(s.port, 10))
}
