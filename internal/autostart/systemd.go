package autostart

import (
	"context"
	_ "embed" // the unit
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const unitName = "tunctl.service"

// RestartDelay is how long after a crash systemd starts the agent again. The agent itself
// keeps its logins apart, and stops connecting after several crashes.
const RestartDelay = time.Second

// unit is the agent as a systemd user unit.
type unit struct {
	file
	link string // enables it
	run  runner
}

func newUnit(m machine) *unit {
	dir := filepath.Join(m.configDir, "systemd", "user")
	link, socket := filepath.Join(dir, "default.target.wants", unitName), filepath.Join(m.runtimeDir, "systemd", "private")
	runs := func() bool { return filepath.IsAbs(socket) && exists(socket) }
	enabled := func(context.Context, string) bool { return runs() && exists(link) }
	return &unit{file{Agent, "systemd", filepath.Join(dir, unitName), m.configDir, unitText, unitProgram, runs, enabled}, link, m.run}
}

// packagedUnit is the unit's file, as packages install it. It hides no files: the agent reads keys anywhere in the
// home and runs the user's ssh, proxy and login commands; and the mount namespaces
// for that need unprivileged user namespaces, which some systems forbid.
//
//go:embed tunctl.service
var packagedUnit string

// unitText is the unit's file for a program.
func unitText(_ Part, program string) string {
	return strings.Replace(packagedUnit, `"/usr/bin/tunctl"`, unitQuote(program), 1)
}

// unitQuote writes a path for ExecStart=; see systemd.service(5), "Command lines".
func unitQuote(path string) string { return `"` + strings.ReplaceAll(path, `%`, `%%`) + `"` }

// unitForbidden are characters that systemd rejects in the path of a program, also in
// quotes.
const unitForbidden = `"'\` + "\n\t"

// unitProgram reads the program back from a unit's text.
func unitProgram(text string) string {
	command := lineValue(text, "ExecStart")
	quoted, ok := strings.CutSuffix(command, ` agent run`)
	if ok && len(quoted) > 1 && quoted[0] == '"' {
		return strings.ReplaceAll(quoted[1:len(quoted)-1], `%%`, `%`)
	}
	program, _, _ := strings.Cut(command, " ")
	return program
}

func (u *unit) install(ctx context.Context, program string) error {
	if strings.ContainsAny(program, unitForbidden) {
		return fmt.Errorf("systemd cannot start a program with a quote or backslash in its path: move %q", program)
	}
	if err := u.file.install(ctx, program); err != nil {
		return err
	}
	if _, err := u.run(ctx, "systemctl", "--user", "daemon-reload"); err != nil {
		return err
	}
	_, err := u.run(ctx, "systemctl", "--user", "enable", unitName)
	return err
}

// remove never stops the unit: the tunnels of a running agent stay.
func (u *unit) remove(ctx context.Context) error {
	if !exists(u.path) && !exists(u.link) {
		return nil
	}
	if u.wanted() {
		if _, err := u.run(ctx, "systemctl", "--user", "disable", unitName); err != nil {
			return err
		}
	}
	if err := errors.Join(removeFile(u.link, u.top), u.file.remove(ctx)); err != nil || !u.wanted() {
		return err
	}
	_, err := u.run(ctx, "systemctl", "--user", "daemon-reload")
	return err
}

func (u *unit) start(ctx context.Context) error {
	_, err := u.run(ctx, "systemctl", "--user", "start", unitName)
	return err
}

// errNoUnit says that the system does not supervise the agent.
var errNoUnit = errors.New("the agent has no enabled unit or task")

// StartAgent starts the enabled unit or task of the agent now, so that a command that needs
// an agent does not start a second one.
func (a *Autostart) StartAgent(ctx context.Context) error {
	if a.keeper == nil {
		return errNoUnit
	}
	if e, err := a.keeper.entry(ctx, a.program); err != nil || !e.Enabled || e.Stale {
		return errors.Join(errNoUnit, err)
	}
	return a.keeper.start(ctx)
}

// newDesktopEntry is a part in the XDG autostart folder.
func newDesktopEntry(p Part, m machine, used func() bool) *file {
	path := filepath.Join(m.configDir, "autostart", "tunctl-"+string(p)+".desktop")
	program := func(text string) string { return desktopValue(text, "TryExec") }
	return &file{p, "xdg", path, m.configDir, desktopText, program, used, func(_ context.Context, text string) bool {
		// Desktops disable an entry with one of these keys.
		return desktopValue(text, "Hidden") != "true" && desktopValue(text, "X-GNOME-Autostart-enabled") != "false"
	}}
}

//go:embed autostart.desktop
var desktopFile string

// desktopText is the entry's file.
func desktopText(p Part, program string) string {
	command := desktopQuote(program) + " " + strings.Join(p.args(), " ")
	return strings.NewReplacer("PART", string(p), "PROGRAM", desktopString(program), "COMMAND", command).Replace(desktopFile)
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
