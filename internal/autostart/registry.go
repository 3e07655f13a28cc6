package autostart

import (
	"context"
	"strings"
)

// The keys below HKEY_CURRENT_USER that Windows reads at login.
const (
	runKey      = `Software\Microsoft\Windows\CurrentVersion\Run`
	approvedKey = `Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run`
)

// registry is the user's part of the Windows registry.
type registry interface {
	get(key, name string) (text string, raw []byte, err error) // both empty: no such value
	set(key, name, text string) error
	unset(key, name string) error
}

// windowsMethods are the methods of Windows: a task for the agent, the Run key for the
// tray, and for the agent where a policy forbids tasks.
func windowsMethods(t *task, r registry) []method {
	return []method{
		t,
		&runValue{Agent, r, func() bool { return t.refused }},
		&runValue{Tray, r, func() bool { return true }},
	}
}

// runValue is a part as a value of the Run key.
type runValue struct {
	Part
	registry registry
	used     func() bool // no better method is
}

func (v *runValue) name() string { return "tunctl-" + string(v.Part) }

// runCommand is the command line for Windows; a path there cannot hold quotes.
func runCommand(p Part, program string) string {
	return `"` + withoutWindow(program) + `" ` + strings.Join(p.args(), " ")
}

// runProgram reads the program back.
func runProgram(command string) string {
	if rest, ok := strings.CutPrefix(command, `"`); ok {
		program, _, _ := strings.Cut(rest, `"`)
		return program
	}
	program, _, _ := strings.Cut(command, " ")
	return program
}

func (v *runValue) wanted() bool { return v.used() }

// install also undoes an earlier "Disable" in the Task Manager: the user has switched it
// on again.
func (v *runValue) install(_ context.Context, program string) error {
	if err := v.registry.unset(approvedKey, v.name()); err != nil {
		return err
	}
	return v.registry.set(runKey, v.name(), runCommand(v.Part, program))
}

func (v *runValue) remove(context.Context) error {
	if err := v.registry.unset(approvedKey, v.name()); err != nil {
		return err
	}
	return v.registry.unset(runKey, v.name())
}

func (v *runValue) entry(_ context.Context, program string) (Entry, error) {
	e := Entry{Part: v.Part, Kind: "registry", Path: `HKCU\` + runKey + `\` + v.name()}
	command, _, err := v.registry.get(runKey, v.name())
	if err != nil || command == "" {
		return e, err
	}
	_, approved, err := v.registry.get(approvedKey, v.name())
	e.Installed = true
	// The Task Manager writes an odd first byte for "disabled".
	e.Enabled = len(approved) == 0 || approved[0]%2 == 0
	e.Stale = command != runCommand(v.Part, program)
	e.Program = runProgram(command)
	if dir, ok := strings.CutSuffix(e.Program, windowless); ok {
		e.Program = dir + "tunctl.exe"
	}
	return e, err
}
