package autostart

import (
	"bytes"
	"context"
	_ "embed" // the task
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf16"
)

// windowless is the same program without a console, beside tunctl.exe: Windows opens a
// console window for tunctl.exe at each login, if only for a moment.
const windowless = "tunctlw.exe"

// withoutWindow is the program that starts at login: windowless, where that is installed.
func withoutWindow(program string) string {
	if beside := filepath.Join(filepath.Dir(program), windowless); exists(beside) {
		return beside
	}
	return program
}

// task is the agent as a task of the Windows Task Scheduler, which can start it again
// after a failure; the Run key cannot.
type task struct {
	user string // the user's SID
	dir  string // where Windows keeps tasks
	run  runner

	refused bool // the last install was
}

// name is different for each user: all tasks of a computer are in one folder.
func (t *task) name() string { return "tunctl-agent-" + t.user }

func (t *task) path() string { return filepath.Join(t.dir, t.name()) }

// taskSource marks a task as ours and has the path of tunctl. It is ASCII: schtasks prints
// other letters in the console's code page, or as question marks.
func taskSource(program string) string { return "tunctl " + url.PathEscape(program) }

// taskXML is the task; see "Task Scheduler Schema". The defaults would end it after
// three days or on battery, and give it the priority of a backup.
//
//go:embed task.xml
var taskXML string

// taskText is the task of a user for a program.
func taskText(user, program string) string {
	return strings.NewReplacer("SOURCE", html.EscapeString(taskSource(program)), "USER", html.EscapeString(user), "PROGRAM", html.EscapeString(withoutWindow(program))).Replace(taskXML)
}

// taskSettings is what we read of a task. Windows writes it in its own way, with defaults
// added.
type taskSettings struct {
	Source  string `xml:"RegistrationInfo>Source"`
	Enabled string `xml:"Settings>Enabled"`
	Restart string `xml:"Settings>RestartOnFailure>Interval"`
	Command string `xml:"Actions>Exec>Command"`
}

// readTask reads the XML of a task, in UTF-16 from a file or as schtasks prints it.
func readTask(text []byte) (taskSettings, error) {
	var s taskSettings
	if len(text) > 1 && (text[0] == 0xff || text[1] == 0) { // UTF-16, with a mark or without
		units := make([]uint16, len(text)/2)
		_, _ = binary.Decode(text, binary.LittleEndian, units) // there are that many
		text = []byte(string(utf16.Decode(units)))
	}
	// The declaration before it may not tell the truth about the encoding.
	body := text[max(bytes.Index(text, []byte("<Task ")), 0):]
	if err := xml.Unmarshal(bytes.ToValidUTF8(body, []byte("?")), &s); err != nil {
		return s, fmt.Errorf("cannot read the task for start at login: %w", err)
	}
	return s, nil
}

// utf16Text is text as schtasks wants it.
func utf16Text(text string) []byte {
	out, _ := binary.Append([]byte{0xff, 0xfe}, binary.LittleEndian, utf16.Encode([]rune(text))) // numbers can always be written
	return out
}

// read returns the task's XML, nil if there is none. Whether people may read the file of
// their own task is up to the computer's administrator; if not, schtasks is asked.
func (t *task) read(ctx context.Context) []byte {
	text, err := os.ReadFile(t.path())
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return text
	}
	if text, err = t.run(ctx, "schtasks", "/query", "/tn", t.name(), "/xml"); err != nil {
		return nil // it fails where there is none
	}
	return text
}

func (t *task) wanted() bool { return true }

// install does not fail where a policy forbids tasks: the Run key is used instead.
func (t *task) install(ctx context.Context, program string) error {
	f, err := os.CreateTemp("", "tunctl-*.xml")
	if err == nil {
		defer func() { _ = os.Remove(f.Name()) }()
		_, err = f.Write(utf16Text(taskText(t.user, program)))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write the start at login entry: %w", err)
	}
	_, err = t.run(ctx, "schtasks", "/create", "/tn", t.name(), "/xml", f.Name(), "/f")
	if t.refused = err != nil; t.refused {
		return t.remove(ctx) // of an earlier one, which would start the agent twice
	}
	return nil
}

func (t *task) remove(ctx context.Context) error {
	if t.read(ctx) == nil {
		return nil
	}
	_, err := t.run(ctx, "schtasks", "/delete", "/tn", t.name(), "/f")
	return err
}

func (t *task) entry(ctx context.Context, program string) (Entry, error) {
	e := Entry{Part: Agent, Kind: "task", Path: `Task Scheduler\` + t.name()}
	text := t.read(ctx)
	if text == nil {
		return e, nil
	}
	s, err := readTask(text)
	e.Installed = true
	e.Enabled = s.Enabled != "false" // as switched off in the Task Scheduler's window
	e.Stale = s.Source != taskSource(program)
	if path, ok := strings.CutPrefix(s.Source, "tunctl "); ok {
		e.Program, err = url.PathUnescape(path)
	}
	return e, err
}

func (t *task) start(ctx context.Context) error {
	_, err := t.run(ctx, "schtasks", "/run", "/tn", t.name())
	return err
}

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
	return errors.Join(v.registry.unset(approvedKey, v.name()), v.registry.unset(runKey, v.name()))
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
