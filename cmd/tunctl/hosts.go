package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/tunnel"
)

func hostsCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "show how hosts are read from your ssh config, and how they are",
		ArgsUsage: "[HOST]",
		Description: "Without a name: the hosts of the config. HOST may also be any alias of ~/.ssh/config.\n" +
			"Nothing is dialled.",
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print it as JSON"}},
		BashComplete: completeHosts,
		Action:       func(c *cli.Context) error { return hosts(c, t) },
	}
}

func hosts(c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	cfg, err := configs.Load(p.Config)
	if err != nil {
		cfg = &configs.Config{}
	}
	names := hostNames(cfg)
	if c.NArg() > 0 {
		names = c.Args().Slice()
	}
	live := map[string]api.Host{}
	if st, err := client.New(p).Status(c.Context); err == nil {
		for _, h := range st.Hosts {
			live[h.Alias] = h
		}
	}
	list := make([]api.Host, 0, len(names))
	for _, name := range names {
		h, err := readHost(c, cfg, name)
		if err != nil {
			return err
		}
		list = append(list, withState(h, live[name]))
	}
	switch {
	case c.Bool("json") && c.NArg() == 1:
		return t.indented(list[0])
	case c.Bool("json"):
		return t.indented(list)
	}
	return printHosts(t, list)
}

// hostNames are the hosts that the config is about.
func hostNames(cfg *configs.Config) []string {
	names := []string{}
	for _, h := range cfg.Hosts {
		names = append(names, h.Name)
	}
	for _, s := range cfg.Sessions {
		if !slices.Contains(names, s.Host) {
			names = append(names, s.Host)
		}
	}
	return names
}

func readHost(c *cli.Context, cfg *configs.Config, name string) (api.Host, error) {
	settings, err := tunnel.Resolve(c.Context, cfg.Host(name).SSH, tunnel.ResolveOptions{SSHConfig: sshConfigFile(cfg)})
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
	h.RTTMs, h.Auth, h.LoginNode = live.RTTMs, live.Auth, live.LoginNode
	if len(live.Via) > 0 {
		h.Via = live.Via
	}
	return h
}

func printHosts(t *terminal, list []api.Host) error {
	if len(list) == 0 {
		t.say("no hosts in the config; `tunctl hosts NAME` shows any alias of your ssh config")
		return nil
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tSTATE\tLOGIN\tREAD FROM")
	for _, h := range list {
		fmt.Fprintf(w, "%s\t%s\t%s@%s:%d\t%s\n", h.Alias, h.State, h.User, h.Hostname, h.Port, h.Source)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range list {
		if h.Cause != "" {
			fmt.Fprintf(t.out, "%s: %s\n", h.Alias, h.Cause)
		}
		for _, warning := range h.Warnings {
			t.say("%s: %s", h.Alias, warning)
		}
	}
	return nil
}

// completeHosts offers the config's hosts and the ssh config's aliases.
func completeHosts(c *cli.Context) {
	p, err := paths(c)
	if err != nil || c.NArg() > 0 {
		return
	}
	cfg, err := configs.Load(p.Config)
	if err != nil {
		cfg = &configs.Config{}
	}
	names := hostNames(cfg)
	if aliases, err := tunnel.Aliases(sshConfigFile(cfg)); err == nil {
		names = append(names, aliases...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		fmt.Fprintln(c.App.Writer, name)
	}
}
