package show

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// Hosts has a row per connected host, without the causes that are said already.
func Hosts(list []api.Host, said map[string]bool, now time.Time) *term.Table {
	hosts := &term.Table{Header: []string{"HOST", "STATE", "SINCE", "LOGIN", "ROUND TRIP"}}
	for _, h := range list {
		hosts.Add(hostNotes(h, said, now), term.Cell{Text: api.HostLabel(h.Alias), Colour: term.Bold}, term.Cell{Text: words.Host(h), Colour: hostColour(h)},
			term.Cell{Text: sinceText(h.Since, now)}, term.Cell{Text: loginText(h)}, term.Cell{Text: rttText(h)})
	}
	return hosts
}

// hostNotes are the lines under a host in a list, without a cause that is said already.
func hostNotes(h api.Host, said map[string]bool, now time.Time) []string {
	var notes []string
	if !said[h.Cause] {
		notes = append(notes, h.Cause)
	}
	return append(append(notes, h.Links...), certificateNote(h, now))
}

// HostList draws a list of hosts, one line each.
func HostList(l term.Layout, list []api.Host, now time.Time) string {
	all := term.Table{Header: []string{"HOST", "STATE", "SINCE", "ACCOUNT", "ROUND TRIP", "SETTINGS FROM"}}
	for _, h := range list {
		notes := hostNotes(h, nil, now)
		if len(h.Inside) > 0 {
			notes = append(notes, "inside jobs: "+strings.Join(h.Inside, ", "))
		}
		all.Add(notes, term.Cell{Text: h.Alias, Colour: term.Bold}, term.Cell{Text: words.Host(h), Colour: hostColour(h)},
			term.Cell{Text: sinceText(h.Since, now)}, term.Cell{Text: Account(h)}, term.Cell{Text: rttText(h)}, term.Cell{Text: h.Source})
	}
	return all.Draw(l)
}

// HostPage draws everything known about one host.
func HostPage(l term.Layout, h api.Host, now time.Time) string {
	var out strings.Builder
	out.WriteString(l.Paint(term.Bold, h.Alias) + ": " + l.Paint(hostColour(h), words.Host(h)))
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
		{"account", Account(h)},
		{"via", cmp.Or(via, h.ProxyCommand)},
		{"login node", h.LoginNode},
		{"login method", h.LoginMethods()},
		{"round trip", strings.Trim(rttText(h), "-")},
		{"sessions", channelsText(h)},
		{"transport", transportText(h)},
		{"certificate", certificateEndText(h.CertificateEnds, now)},
		{"key exchange", agreed.KeyExchange},
		{"host key", agreed.HostKey},
		{"cipher", agreed.Cipher},
		{"MAC", agreed.MAC},
		{"key files", strings.Join(present, ", ")},
		{"key of tunctl", h.OwnKey},
		{"settings from", h.Source},
		{"inside jobs", strings.Join(h.Inside, ", ")},
	}
}

// Account is who logs in where.
func Account(h api.Host) string { return fmt.Sprintf("%s@%s:%d", h.User, h.Hostname, h.Port) }

// channelsText says how much of its connection tunctl uses.
func channelsText(h api.Host) string {
	if h.MaxChannels == 0 {
		return ""
	}
	return fmt.Sprintf("%d in use, at most %d", h.Channels, h.MaxChannels)
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

func loginText(h api.Host) string {
	text := strings.TrimSpace(h.User + "@" + h.Hostname)
	if h.LoginNode != "" {
		text = h.User + "@" + h.LoginNode
	}
	if h.Auth != "" && h.State == api.HostUp {
		text += " by " + h.LoginMethods()
	}
	return orDash(strings.Trim(text, "@"))
}

// rttText is the round trip of a connection that responds.
func rttText(h api.Host) string {
	if h.RTTMs == 0 || h.IsStalled() {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", h.RTTMs)
}

var hostColours = map[api.HostState]string{
	api.HostUp: term.Green, api.HostBlocked: term.Red, api.HostDown: term.Grey, api.HostNeedsLogin: term.Yellow, api.HostWaiting: term.Yellow, api.HostConnecting: "",
}

func hostColour(h api.Host) string {
	if h.IsStalled() {
		return term.Yellow
	}
	return hostColours[h.State]
}

// factsText lists names and values, but for those without a value.
func factsText(l term.Layout, facts [][2]string) string {
	width := slices.Max(lists.Map(facts, func(f [2]string) int { return term.TextWidth(f[0]) }))
	var out strings.Builder
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(&out, "  %s%s  %s\n", l.Paint(term.Grey, f[0]), strings.Repeat(" ", width-term.TextWidth(f[0])), f[1])
		}
	}
	return out.String()
}
