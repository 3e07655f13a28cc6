package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/agent"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/tunnel/sshconfig"
)

func hostsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "show host settings and connection state",
		ArgsUsage: "[HOST]",
		Description: "Without HOST: the hosts of the config, one per line. With HOST: everything known about it, such\n" +
			"as the login method, the hosts on the way and the algorithms in use. HOST may be any alias of\n" +
			"~/.ssh/config. This command connects to nothing.\n\n" +
			"  tunctl hosts\n" +
			"  tunctl hosts narval",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error { return hosts(c, t) },
	}
}

func hosts(c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	cfg, err := existingConfig(p)
	if err != nil {
		return err
	}
	names := cfg.HostNames()
	if c.NArg() > 0 {
		names = c.Args().Slice()
	}
	live := map[string]api.Host{}
	st, err := client.New(p).Status(c.Context)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err // one that hangs may hold connections: "down" would be false
	}
	for _, h := range st.Hosts {
		live[h.Alias] = h
	}
	list, read := make([]api.Host, 0, len(names)), resolver(p, cfg)
	for _, name := range names {
		h, err := readHost(c.Context, read, name)
		if err != nil {
			return err
		}
		list = append(list, withState(h, live[name]))
	}
	switch {
	case c.Bool("json") && c.NArg() == 1:
		return t.PrintIndentedJSON(list[0])
	case c.Bool("json"):
		return t.PrintIndentedJSON(list)
	}
	if err := printHosts(t, list, c.NArg() == 1); err != nil {
		return err
	}
	sayWhatWasMeant(t, cfg, c.Args().Slice())
	return nil
}

// sayWhatWasMeant helps who mistyped a host's name: any word may be a host to ssh.
func sayWhatWasMeant(t *term.Terminal, cfg *configs.Config, typed []string) {
	known := knownHosts(cfg)
	for _, name := range typed {
		if near := suggest.Nearest(name, known); len(near) > 0 && !slices.Contains(known, name) {
			t.Say("tunctl: hint: %s is neither in the config nor in your ssh config; did you mean %s?", name, near[0])
		}
	}
}

// knownHosts are the config's hosts and the ssh config's aliases.
func knownHosts(cfg *configs.Config) []string {
	names := cfg.HostNames()
	if aliases, err := sshconfig.Aliases(sshConfigFile(cfg)); err == nil {
		names = append(names, aliases...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolver reads hosts as the agent does, without one.
func resolver(p home.Paths, cfg *configs.Config) sshconfig.Resolver {
	sites, _ := configs.LoadSites(configs.SitesFolder(p.Config)) // `tunctl sites` tells of a broken one
	return agent.Resolver(cfg, sites, sshConfigFile(cfg))
}

func readHost(ctx context.Context, read sshconfig.Resolver, name string) (api.Host, error) {
	settings, err := read.Settings(ctx, name)
	if err != nil {
		return api.Host{}, fmt.Errorf("host %q: %w", name, err)
	}
	h := settings.Host()
	h.Alias = name
	return h, nil
}

func sshConfigFile(cfg *configs.Config) string {
	if f := os.Getenv("TUNCTL_SSH_CONFIG"); f != "" {
		return f
	}
	return cfg.SSHConfig
}

// withState adds how the agent has the host now.
func withState(h, live api.Host) api.Host {
	if live.Alias == "" {
		h.State = api.HostDown
		return h
	}
	h.State, h.Cause, h.Hint, h.Since = live.State, live.Cause, live.Hint, live.Since
	h.RTTMs, h.Auth, h.LoginNode, h.Algorithms = live.RTTMs, live.Auth, live.LoginNode, live.Algorithms
	h.Transport, h.TransportWhy, h.CertificateEnds = live.Transport, live.TransportWhy, live.CertificateEnds
	if len(live.Via) > 0 {
		h.Via = live.Via
	}
	h.Outdated = live.Outdated
	if is, next := account(live), account(h); live.State == api.HostUp && is != next {
		h.Outdated = fmt.Sprintf("connected to %s, but the settings now say %s; run `tunctl logout %s` and `tunctl login %s` to use them", is, next, h.Alias, h.Alias)
	}
	for _, warning := range live.Warnings { // also of what the login found
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
		text = hostPage(layout, list[0], now)
	} else {
		text = hostTable(layout, list, now)
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

// warnAboutOutdated tells of the connections that go by settings of before.
func warnAboutOutdated(t *term.Terminal, list []api.Host) {
	for _, h := range list {
		if h.Outdated != "" {
			t.Say("tunctl: warning: %s: %s", h.Alias, h.Outdated)
		}
	}
}
