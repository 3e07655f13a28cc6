package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
)

func hostsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "show host settings and connection state",
		ArgsUsage: "[HOST]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action:    invoke(t, showHosts),
	}
}

func showHosts(ctx context.Context, inv *invocation) error {
	cfg, err := existingConfig(inv.paths)
	if err != nil {
		return err
	}
	names := cfg.HostNames()
	if inv.NArg() > 0 {
		names = inv.Args().Slice()
	}
	live := map[string]api.Host{}
	st, err := liveStatus(ctx, inv.client)
	if err != nil {
		return err
	}
	for _, h := range st.Hosts {
		live[h.Alias] = h
	}
	list, read := make([]api.Host, 0, len(names)), resolver(inv.paths, cfg)
	for _, name := range names {
		if err := inv.refuseSession(name); err != nil {
			return err
		}
		h, err := readHost(ctx, read, name)
		if err != nil {
			return fmt.Errorf("host %q: %w", name, err)
		}
		for _, s := range jobSessions(cfg) {
			if s.Host == name {
				h.Inside = append(h.Inside, s.Name+aliasSuffix)
			}
		}
		list = append(list, withState(h, live[name]))
	}
	unknown := checkNames(ctx, inv.Terminal, cfg, list)
	switch {
	case inv.Bool("json") && inv.NArg() == 1:
		return cmp.Or(inv.PrintIndentedJSON(list[0]), unknown)
	case inv.Bool("json"):
		return cmp.Or(inv.PrintIndentedJSON(list), unknown)
	}
	return cmp.Or(printHosts(inv.Terminal, list, inv.NArg() == 1), unknown)
}

// checkNames returns an error for the name of no host: in no config, and not in DNS either. Any other name may be
// a host for ssh; a similar one that is known is suggested.
func checkNames(ctx context.Context, t *term.Terminal, cfg *configs.Config, list []api.Host) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	known := knownHosts(cfg)
	for _, h := range list {
		if slices.Contains(known, h.Alias) {
			continue
		}
		_, err := net.DefaultResolver.LookupHost(ctx, h.Hostname)
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound && h.ProxyJump+h.ProxyCommand == "" {
			return api.Errorf(api.CodeUnknownHost, "no host %q in the config, the ssh config or DNS", h.Alias).
				WithHint("%s", cmp.Or(suggest.Hint(h.Alias, known), "a name of an internal network may need the VPN"))
		}
		if near := suggest.Nearest(h.Alias, known); len(near) > 0 {
			t.Say("tunctl: hint: %s is neither in the config nor in your ssh config; did you mean %s?", h.Alias, near[0])
		}
	}
	return nil
}

// withState adds the host's state as the agent has it.
func withState(h, live api.Host) api.Host {
	if live.Alias == "" {
		h.State = api.HostDown
		return h
	}
	h.State, h.Cause, h.Hint, h.Since = live.State, live.Cause, live.Hint, live.Since
	h.NotRespondingSince = live.NotRespondingSince
	h.RTTMs, h.Auth, h.LoginNode, h.Algorithms = live.RTTMs, live.Auth, live.LoginNode, live.Algorithms
	h.Channels, h.MaxChannels = live.Channels, live.MaxChannels
	h.Transport, h.TransportWhy, h.Links = live.Transport, live.TransportWhy, live.Links
	if live.State == api.HostUp && !live.CertificateEnds.IsZero() {
		h.CertificateEnds = live.CertificateEnds
	}
	if len(live.Via) > 0 {
		h.Via = live.Via
	}
	h.Outdated = live.Outdated
	if current, next := show.Account(live), show.Account(h); live.State == api.HostUp && current != next {
		h.Outdated = fmt.Sprintf("connected to %s, but the settings now say %s; run `tunctl logout %s` and `tunctl login %s` to use them", current, next, h.Alias, h.Alias)
	}
	for _, warning := range live.Warnings { // also those of the login
		if !slices.Contains(h.Warnings, warning) {
			h.Warnings = append(h.Warnings, warning)
		}
	}
	return h
}

func printHosts(t *term.Terminal, list []api.Host, one bool) error {
	if len(list) == 0 {
		t.Say("no hosts in the config; `tunctl hosts HOST` shows any alias of your ssh config")
		return nil
	}
	var text string
	if layout, now := term.LayoutFor(t.Out), time.Now(); one {
		text = show.HostPage(layout, list[0], now)
	} else {
		text = show.HostList(layout, list, now)
	}
	if _, err := fmt.Fprint(t.Out, text); err != nil {
		return err
	}
	for _, h := range list {
		for _, warning := range h.Warnings {
			t.Say("tunctl: warning: %s: %s", h.Alias, warning)
		}
	}
	warnAboutOutdated(t, list)
	return nil
}
