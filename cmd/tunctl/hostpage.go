package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// hostTable draws a list of hosts, a line each.
func hostTable(l term.Layout, list []api.Host, now time.Time) string {
	all := term.Table{Header: []string{"HOST", "STATE", "SINCE", "ACCOUNT", "ROUND TRIP", "SETTINGS FROM"}}
	for _, h := range list {
		var notes []string
		if h.Cause != "" {
			notes = append(notes, h.Cause)
		}
		all.Add(notes, term.Cell{Text: h.Alias, Colour: term.Bold}, term.Cell{Text: string(h.State), Colour: hostColour(h.State)},
			term.Cell{Text: sinceText(h.Since, now)}, term.Cell{Text: account(h)}, term.Cell{Text: rttText(h.RTTMs)}, term.Cell{Text: h.Source})
	}
	return all.Draw(l)
}

// hostPage draws all that is known of one host.
func hostPage(l term.Layout, h api.Host, now time.Time) string {
	var out strings.Builder
	out.WriteString(l.Paint(term.Bold, h.Alias) + ": " + l.Paint(hostColour(h.State), string(h.State)))
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
	facts := hostFacts(h)
	width := 0
	for _, f := range facts {
		width = max(width, term.TextWidth(f[0]))
	}
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(&out, "  %s%s  %s\n", l.Paint(term.Grey, f[0]), strings.Repeat(" ", width-term.TextWidth(f[0])), f[1])
		}
	}
	return out.String()
}

// hostFacts are names and values; a value that is empty is not known.
func hostFacts(h api.Host) [][2]string {
	via := strings.Join(h.Via, ", then ")
	if h.State != api.HostUp {
		via = cmp.Or(via, strings.ReplaceAll(h.ProxyJump, ",", ", then "))
	}
	facts := [][2]string{
		{"account", account(h)},
		{"via", cmp.Or(via, h.ProxyCommand)},
		{"login node", h.LoginNode},
		{"login method", strings.ReplaceAll(h.Auth, "+", ", then ")},
		{"round trip", strings.Trim(rttText(h.RTTMs), "-")},
		{"transport", carrier(h)},
	}
	if a := h.Algorithms; a != nil {
		facts = append(facts, [][2]string{
			{"key exchange", a.KeyExchange},
			{"host key", a.HostKey},
			{"cipher", a.Cipher},
			{"MAC", cmp.Or(a.MAC, "built into the cipher")},
		}...)
	}
	present := slices.DeleteFunc(slices.Clone(h.IdentityFiles), func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
	return append(facts, [2]string{"key files", strings.Join(present, ", ")}, [2]string{"settings from", h.Source})
}

// carrier is what holds the connection where that is not tunctl itself.
func carrier(h api.Host) string {
	switch h.Transport {
	case api.TransportOpenSSH:
		return strings.TrimSuffix("the ssh program: "+h.TransportWhy, ": ")
	case api.TransportMaster:
		return cmp.Or(h.TransportWhy, "your own ssh connection")
	}
	return ""
}

func account(h api.Host) string { return fmt.Sprintf("%s@%s:%d", h.User, h.Hostname, h.Port) }
