package autostart

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// launchdMethods are the methods of macOS.
func launchdMethods(o Options) []method {
	dir := filepath.Join(o.HomeDir, "Library", "LaunchAgents")
	return []method{
		&launchAgent{Part: Agent, dir: dir, home: o.HomeDir, run: o.Run},
		&launchAgent{Part: Tray, dir: dir, home: o.HomeDir, run: o.Run, missing: o.NoTray},
	}
}

// launchAgent is a part as a LaunchAgent. Only its file is written: launchd reads the
// folder at login, and loading or unloading it now would start or end a process.
type launchAgent struct {
	Part
	dir, home string
	run       func(ctx context.Context, name string, args ...string) ([]byte, error)
	missing   bool // from this build
}

func (l *launchAgent) label() string { return "tunctl." + string(l.Part) }
func (l *launchAgent) path() string  { return filepath.Join(l.dir, l.label()+".plist") }

// plistText is the LaunchAgent's file; see launchd.plist(5). launchd starts a program that
// ran for at least ThrottleInterval again at once, and one that ended sooner when that
// time is over.
func plistText(p Part, program string) string {
	var arguments strings.Builder
	for _, word := range append([]string{program}, p.args()...) {
		arguments.WriteString("\t\t<string>" + xmlText(word) + "</string>\n")
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>tunctl.` + string(p) + `</string>
	<key>ProgramArguments</key>
	<array>
` + arguments.String() + `	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>1</integer>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>LimitLoadToSessionType</key>
	<string>Aqua</string>
	<key>Umask</key>
	<integer>63</integer>
</dict>
</plist>
`
}

func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// plistProgram reads the first of the arguments back.
func plistProgram(text string) string {
	_, rest, ok := strings.Cut(text, "<key>ProgramArguments</key>")
	if !ok {
		return ""
	}
	var arguments struct {
		Words []string `xml:"string"`
	}
	if xml.Unmarshal([]byte(rest), &arguments) != nil || len(arguments.Words) == 0 {
		return ""
	}
	return arguments.Words[0]
}

func (l *launchAgent) wanted() bool { return !l.missing }

func (l *launchAgent) install(ctx context.Context, program string) error {
	// Where macOS runs an application that was downloaded and never moved. The folder is
	// gone when the application ends.
	if strings.Contains(program, "/AppTranslocation/") {
		return errors.New("tunctl.app runs from a temporary folder of macOS: quit it, move it to Applications, and open it there")
	}
	if err := write(l.path(), plistText(l.Part, program)); err != nil {
		return err
	}
	_, err := l.run(ctx, "launchctl", "enable", l.service()) // undoes an earlier "disable"
	return err
}

func (l *launchAgent) remove(context.Context) error { return removeFile(l.path(), l.home) }

// service is the name of the part for launchctl.
func (l *launchAgent) service() string { return fmt.Sprintf("gui/%d/%s", os.Getuid(), l.label()) }

func (l *launchAgent) entry(ctx context.Context, program string) (Entry, error) {
	text, err := read(l.path())
	e := Entry{Part: l.Part, Kind: "launchd", Path: l.path()}
	if text != "" {
		e.Installed = true
		e.Enabled = !l.disabled(ctx)
		e.Stale = text != plistText(l.Part, program) || l.missing
		e.Program = plistProgram(text)
	}
	return e, err
}

// disabled reads the list of launchd, to which System Settings writes.
func (l *launchAgent) disabled(ctx context.Context) bool {
	out, err := l.run(ctx, "launchctl", "print-disabled", fmt.Sprintf("gui/%d", os.Getuid()))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " => ")
		if name == `"`+l.label()+`"` {
			return value == "disabled" || value == "true"
		}
	}
	return false
}
