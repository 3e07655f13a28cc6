package autostart

import (
	"context"
	"path/filepath"
	"strings"
)

// linuxMethods are the methods of Linux and BSD: systemd for the agent if the person has
// one, the desktop's autostart folder for everything else.
func linuxMethods(o Options) []method {
	u := newUnit(o)
	return []method{
		u,
		&desktopEntry{Part: Agent, configDir: o.ConfigDir, unless: u.wanted},
		&desktopEntry{Part: Tray, configDir: o.ConfigDir, unless: func() bool { return false }},
	}
}

// desktopEntry is a part in the XDG autostart folder.
type desktopEntry struct {
	Part
	configDir string
	unless    func() bool // a better method is used
}

func (d *desktopEntry) path() string {
	return filepath.Join(d.configDir, "autostart", "tunctl-"+string(d.Part)+".desktop")
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

func (d *desktopEntry) wanted() bool { return !d.unless() }

func (d *desktopEntry) install(_ context.Context, program string) error {
	return write(d.path(), desktopText(d.Part, program))
}

func (d *desktopEntry) remove(context.Context) error { return removeFile(d.path(), d.configDir) }

func (d *desktopEntry) entry(_ context.Context, program string) (Entry, error) {
	text, err := read(d.path())
	e := Entry{Part: d.Part, Kind: "xdg", Path: d.path()}
	if text != "" {
		e.Installed = true
		// Desktops disable an entry with one of these keys.
		e.Enabled = desktopValue(text, "Hidden") != "true" && desktopValue(text, "X-GNOME-Autostart-enabled") != "false"
		e.Stale = e.Enabled && text != desktopText(d.Part, program)
		e.Program = desktopValue(text, "TryExec")
	}
	return e, err
}
