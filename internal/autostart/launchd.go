package autostart

import (
	"context"
	_ "embed" // the file
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"tunctl/internal/lists"
)

// launchAgent is a part as a LaunchAgent. Only its file is written: launchd reads the
// folder at login, and loading or unloading it now would start or end a process.
type launchAgent struct {
	file
	run runner
}

func newLaunchAgent(p Part, m machine, exists bool) *launchAgent {
	path := filepath.Join(m.homeDir, "Library", "LaunchAgents", label(p)+".plist")
	l := &launchAgent{file{p, "launchd", path, m.homeDir, plistText, plistProgram, func() bool { return exists }, nil}, m.run}
	l.enabled = func(ctx context.Context, _ string) bool { return !l.disabled(ctx) }
	return l
}

// label is the name of a part for launchd.
func label(p Part) string { return "tunctl." + string(p) }

// plist is the LaunchAgent's file; see launchd.plist(5). launchd starts a program that
// ran for at least ThrottleInterval again at once, and one that ended sooner when that
// time is over.
//
//go:embed tunctl.plist
var plist string

// plistText is the file for a part of a program.
func plistText(p Part, program string) string {
	words := lists.Map(append([]string{program}, p.args()...), func(word string) string { return "\t\t<string>" + html.EscapeString(word) + "</string>\n" })
	return strings.NewReplacer("LABEL", label(p), "ARGUMENTS", strings.Join(words, "")).Replace(plist)
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

func (l *launchAgent) install(ctx context.Context, program string) error {
	// Where macOS runs an application that was downloaded and never moved. The folder is
	// gone when the application ends.
	if strings.Contains(program, "/AppTranslocation/") {
		return errors.New("tunctl.app runs from a temporary folder of macOS: quit it, move it to Applications, and open it there")
	}
	if err := l.file.install(ctx, program); err != nil {
		return err
	}
	_, err := l.run(ctx, "launchctl", "enable", fmt.Sprintf("gui/%d/%s", os.Getuid(), label(l.Part))) // undoes an earlier "disable"
	return err
}

func (l *launchAgent) entry(ctx context.Context, program string) (Entry, error) {
	e, err := l.file.entry(ctx, program)
	e.Stale = e.Stale || e.Installed && !l.wanted() // this build lacks the part
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
		if name == `"`+label(l.Part)+`"` {
			return value == "disabled" || value == "true"
		}
	}
	return false
}
