package autostart

import (
	"context"
	"path/filepath"
	"strings"
)

// linuxMethods are the methods of Linux and BSD: systemd for the agent if the user has
// one, the desktop's autostart folder for everything else.
func linuxMethods(m machine) []method {
	u := newUnit(m)
	return []method{
		u,
		newDesktopEntry(Agent, m, func() bool { return !u.wanted() }),
		newDesktopEntry(Tray, m, func() bool { return true }),
	}
}

// desktopEntry is a part in the XDG autostart folder.
type desktopEntry struct {
	file
	used func() bool // no better method is
}

func newDesktopEntry(p Part, m machine, used func() bool) *desktopEntry {
	path := filepath.Join(m.configDir, "autostart", "tunctl-"+string(p)+".desktop")
	program := func(text string) string { return desktopValue(text, "TryExec") }
	return &desktopEntry{file{p, "xdg", path, m.configDir, desktopText, program}, used}
}

// desktopText is the entry's file.
func desktopText(p Part, program string) string {
	return `[Desktop Entry]
Type=Application
Version=1.0
Name=tunctl ` + string(p) + `
Comment=Tunnels to notebooks on compute nodes
TryExec=` + desktopString(program) + `
Exec=` + desktopQuote(program) + " " + strings.Join(p.args(), " ") + `
Terminal=false
StartupNotify=false
NoDisplay=true
X-GNOME-Autostart-enabled=true
`
}

// desktopString writes text as a value of type string.
func desktopString(text string) string { return strings.ReplaceAll(text, `\`, `\\`) }

// desktopQuote writes a path as one word of Exec=, which has its own quoting besides that
// of every string value; see "The Exec key" in the Desktop Entry Specification.
func desktopQuote(path string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`, `%`, `%%`).Replace(path)
	return desktopString(`"` + quoted + `"`)
}

// desktopValue reads one key of an entry.
func desktopValue(text, key string) string {
	return strings.ReplaceAll(lineValue(text, key), `\\`, `\`)
}

func (d *desktopEntry) wanted() bool { return d.used() }

func (d *desktopEntry) entry(_ context.Context, program string) (Entry, error) {
	e, err := d.read(program, func(text string) bool { // desktops disable an entry with one of these keys
		return desktopValue(text, "Hidden") != "true" && desktopValue(text, "X-GNOME-Autostart-enabled") != "false"
	})
	e.Stale = e.Stale && e.Enabled
	return e, err
}
