package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/agent/settings"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

func hostsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "show host settings and connection state",
		ArgsUsage: "[HOST]",
		Description: `Without HOST: the hosts of the config, one per line, and the names by which ssh gets inside the jobs there
			after ''tunctl ssh-config install''. With HOST: everything known about it, such as the login method, the
			hosts on the way and the algorithms in use. HOST may be any alias of ~/.ssh/config. This command connects
			to nothing.

			  tunctl hosts
			  tunctl hosts narval`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: action(t, hosts),
	}
}

func hosts(ctx context.Context, inv *invocation) error {
	cfg, err := existingConfig(inv.paths)
	if err != nil {
		return err
	}
	names := cfg.HostNames()
	if inv.NArg() > 0 {
		names = inv.Args().Slice()
	}
	live := map[string]api.Host{}
	st, err := inv.client.Status(ctx)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err // one that hangs may hold connections: "down" would be false
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
	switch {
	case inv.Bool("json") && inv.NArg() == 1:
		return inv.PrintIndentedJSON(list[0])
	case inv.Bool("json"):
		return inv.PrintIndentedJSON(list)
	}
	if err := printHosts(inv.Terminal, list, inv.NArg() == 1); err != nil {
		return err
	}
	suggestHosts(inv.Terminal, cfg, inv.Args().Slice())
	return nil
}

// suggestHosts suggests the nearest known host for each unknown name. Any name may be a host
// for ssh, so an unknown one is no error.
func suggestHosts(t *term.Terminal, cfg *configs.Config, typed []string) {
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

// resolver reads host settings as the agent does.
func resolver(p home.Paths, cfg *configs.Config) sshconfig.Resolver {
	return settings.Resolver(cfg, readSites(p), sshConfigFile(cfg))
}

func readHost(ctx context.Context, read sshconfig.Resolver, name string) (api.Host, error) {
	settings, err := read.Settings(ctx, name)
	h := settings.Host()
	h.Alias, h.CertificateEnds = name, tunnel.CertificateEnds(&settings)
	return h, err
}

func sshConfigFile(cfg *configs.Config) string {
	if f := os.Getenv("TUNCTL_SSH_CONFIG"); f != "" {
		return f
	}
	return cfg.SSHConfig
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
	if current, next := account(live), account(h); live.State == api.HostUp && current != next {
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

// warnAboutOutdated warns of connections whose settings have changed since.
func warnAboutOutdated(t *term.Terminal, list []api.Host) {
	for _, h := range list {
		if h.Outdated != "" {
			t.Say("tunctl: warning: %s: %s", h.Alias, h.Outdated)
		}
	}
}

// hostTable draws a list of hosts, one line each.
func hostTable(l term.Layout, list []api.Host, now time.Time) string {
	all := term.Table{Header: []string{"HOST", "STATE", "SINCE", "ACCOUNT", "ROUND TRIP", "SETTINGS FROM"}}
	for _, h := range list {
		var notes []string
		if h.Cause != "" {
			notes = append(notes, h.Cause)
		}
		notes = append(notes, h.Links...)
		if ends := certificateNote(h, now); ends != "" {
			notes = append(notes, ends)
		}
		if len(h.Inside) > 0 {
			notes = append(notes, "inside jobs: "+strings.Join(h.Inside, ", "))
		}
		all.Add(notes, term.Cell{Text: h.Alias, Colour: term.Bold}, term.Cell{Text: string(h.State), Colour: hostColour(h)},
			term.Cell{Text: sinceText(h.Since, now)}, term.Cell{Text: account(h)}, term.Cell{Text: rttText(h.RTTMs)}, term.Cell{Text: h.Source})
	}
	return all.Draw(l)
}

// hostPage draws everything known about one host.
func hostPage(l term.Layout, h api.Host, now time.Time) string {
	var out strings.Builder
	out.WriteString(l.Paint(term.Bold, h.Alias) + ": " + l.Paint(hostColour(h), string(h.State)))
	if !h.Since.IsZero() {
		out.WriteString(" since " + sinceText(h.Since, now))
	}
	out.WriteByte('\n')
	if h.Cause != "" {
		out.WriteString(l.Note(h.Cause))
	}
	if h.Hint != "" {
		out.WriteString(l.Note("→ " + h.Hint))
	}
	for _, link := range h.Links {
		out.WriteString(l.Note(link))
	}
	out.WriteString(factsText(l, hostFacts(h, now)))
	return out.String()
}

// factsText lists names and values, but for those without a value.
func factsText(l term.Layout, facts [][2]string) string {
	width := 0
	for _, f := range facts {
		width = max(width, term.TextWidth(f[0]))
	}
	var out strings.Builder
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(&out, "  %s%s  %s\n", l.Paint(term.Grey, f[0]), strings.Repeat(" ", width-term.TextWidth(f[0])), f[1])
		}
	}
	return out.String()
}

// channelsText says how much of its connection tunctl uses.
func channelsText(h api.Host) string {
	if h.MaxChannels == 0 {
		return ""
	}
	return fmt.Sprintf("%d in use, at most %d", h.Channels, h.MaxChannels)
}

// hostFacts are names and values; an empty value is unknown.
func hostFacts(h api.Host, now time.Time) [][2]string {
	via := strings.Join(h.Via, ", then ")
	if h.State != api.HostUp {
		via = cmp.Or(via, strings.ReplaceAll(h.ProxyJump, ",", ", then "))
	}
	var agreed api.Algorithms
	if h.Algorithms != nil {
		agreed = *h.Algorithms
		agreed.MAC = cmp.Or(agreed.MAC, "built into the cipher")
	}
	present := slices.DeleteFunc(slices.Clone(h.IdentityFiles), func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
	return [][2]string{
		{"account", account(h)},
		{"via", cmp.Or(via, h.ProxyCommand)},
		{"login node", h.LoginNode},
		{"login method", strings.ReplaceAll(h.Auth, "+", ", then ")},
		{"round trip", strings.Trim(rttText(h.RTTMs), "-")},
		{"sessions", channelsText(h)},
		{"transport", transportText(h)},
		{"certificate", certificateEndText(h.CertificateEnds, now)},
		{"key exchange", agreed.KeyExchange},
		{"host key", agreed.HostKey},
		{"cipher", agreed.Cipher},
		{"MAC", agreed.MAC},
		{"key files", strings.Join(present, ", ")},
		{"settings from", h.Source},
		{"inside jobs", strings.Join(h.Inside, ", ")},
	}
}

// certificateEndText says when a certificate expires; "" if it never does.
func certificateEndText(ends, now time.Time) string {
	switch left := ends.Sub(now); {
	case ends.IsZero():
		return ""
	case left <= 0:
		return "expired " + minuteTime(ends) + ": get a new one before the next login"
	default:
		return "expires " + minuteTime(ends) + ", in " + api.DurationText(left.Round(time.Minute))
	}
}

// certificateNote is certificateEndText for a list, where only the last and the next day count:
// an old file may be of another host.
func certificateNote(h api.Host, now time.Time) string {
	if h.CertificateEnds.Sub(now).Abs() > 24*time.Hour { // also if it never ends
		return ""
	}
	return "certificate " + certificateEndText(h.CertificateEnds, now)
}

// transportText is the program that has the connection, if not tunctl itself.
func transportText(h api.Host) string {
	if h.Transport != api.TransportOpenSSH {
		return ""
	}
	return strings.TrimSuffix("the ssh program: "+h.TransportWhy, ": ")
}

func account(h api.Host) string { return fmt.Sprintf("%s@%s:%d", h.User, h.Hostname, h.Port) }
