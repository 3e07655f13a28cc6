package autostart

import (
	"context"
	"encoding/xml"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/testprogram"
)

// place is a home of the test's own, with a systemctl that does what the real one
// does to files.
type place struct {
	machine
	calls []string
}

func newPlace(t *testing.T, system string) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{machine: machine{
		program: filepath.Join(root, "bin", "tunctl"), system: system,
		configDir: filepath.Join(root, "home", ".config"), runtimeDir: filepath.Join(root, "run"), homeDir: filepath.Join(root, "home"),
	}}
	for _, dir := range []string{p.configDir, p.runtimeDir, filepath.Dir(p.program)} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	must.Do(t, os.WriteFile(p.program, []byte("#!/bin/sh\n"), 0o755))
	p.run = func(_ context.Context, name string, args ...string) ([]byte, error) {
		call := strings.Join(append([]string{name}, args...), " ")
		p.calls = append(p.calls, call)
		dir := filepath.Join(p.configDir, "systemd", "user")
		link := filepath.Join(dir, "default.target.wants", unitName)
		switch call {
		case "systemctl --user enable " + unitName:
			_ = os.MkdirAll(filepath.Dir(link), 0o755)
			_ = os.Symlink(filepath.Join(dir, unitName), link)
		case "systemctl --user disable " + unitName:
			_ = os.Remove(link)
		}
		return nil, nil
	}
	return p
}

func (p *place) withSystemd(t *testing.T) *place {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Join(p.runtimeDir, "systemd"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(p.runtimeDir, "systemd", "private"), nil, 0o600))
	return p
}

func (p *place) autostart(t *testing.T) *Autostart {
	t.Helper()
	a, err := newFor(p.machine)
	must.Do(t, err)
	return a
}

// files lists what is under the home.
func (p *place) files(t *testing.T) []string {
	t.Helper()
	list := []string{}
	must.Do(t, filepath.WalkDir(p.homeDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(p.homeDir, path)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	}))
	return list
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	return string(text)
}

func status(t *testing.T, a *Autostart) State {
	t.Helper()
	s, err := a.Status(t.Context())
	must.Do(t, err)
	return s
}

func TestAutostart(t *testing.T) {
	tests := []struct {
		name  string
		place func(t *testing.T) *place
		want  []string
	}{
		{"systemd", func(t *testing.T) *place { return newPlace(t, "linux").withSystemd(t) }, []string{
			".config/autostart/tunctl-tray.desktop",
			".config/systemd/user/default.target.wants/tunctl.service",
			".config/systemd/user/tunctl.service",
		}},
		{"no systemd", func(t *testing.T) *place { return newPlace(t, "linux") }, []string{
			".config/autostart/tunctl-agent.desktop",
			".config/autostart/tunctl-tray.desktop",
		}},
		{"macOS", func(t *testing.T) *place { return newPlace(t, "darwin") }, []string{
			"Library/LaunchAgents/tunctl.agent.plist",
			"Library/LaunchAgents/tunctl.tray.plist",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.place(t)
			a := p.autostart(t)
			if s := status(t, a); s.On || len(s.Entries) != 2 {
				t.Errorf("before: %+v, want two parts that are off", s)
			}
			for range 2 { // the second time changes nothing
				must.Do(t, a.On(t.Context()))
				if got := p.files(t); !reflect.DeepEqual(got, tt.want) {
					t.Errorf("on left %q, want %q", got, tt.want)
				}
			}
			s := status(t, a)
			if !s.On {
				t.Errorf("after on: %+v", s)
			}
			for _, e := range s.Entries {
				if e.Program != p.program {
					t.Errorf("%s starts %q, want %q", e.Path, e.Program, p.program)
				}
			}
			must.Do(t, a.Off(t.Context()))
			must.Do(t, a.Off(t.Context()))
			if got := p.files(t); len(got) != 0 {
				t.Errorf("off left %q", got)
			}
			if s := status(t, a); s.On {
				t.Errorf("after off: %+v", s)
			}
		})
	}
}

func TestLaunchdWithoutTray(t *testing.T) {
	p := newPlace(t, "darwin")
	must.Do(t, p.autostart(t).On(t.Context()))
	p.noTray = true
	a := p.autostart(t)
	if s := status(t, a); len(s.Entries) != 2 || !s.Entries[1].Stale {
		t.Errorf("a tray that launchd would start for ever: %+v", s)
	}
	must.Do(t, a.Follow(t.Context()))
	if got, want := p.files(t), []string{"Library/LaunchAgents/tunctl.agent.plist"}; !reflect.DeepEqual(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if s := status(t, a); !s.On || len(s.Entries) != 1 {
		t.Errorf("%+v, want the agent alone, which is on", s)
	}
	must.Do(t, a.Off(t.Context()))
	if s := status(t, a); s.On {
		t.Errorf("after off: %+v", s)
	}
}

func TestLaunchdTrayOfAnotherBuild(t *testing.T) {
	p := newPlace(t, "darwin")
	must.Do(t, p.autostart(t).On(t.Context()))
	p.noTray, p.program = true, filepath.Join(p.homeDir, "..", "tunctl")
	must.Do(t, p.autostart(t).Follow(t.Context()))
	if got := p.files(t); len(got) != 2 {
		t.Errorf("left %q", got)
	}
}

func TestLaunchdTranslocation(t *testing.T) {
	p := newPlace(t, "darwin")
	p.program = "/private/var/folders/x/T/AppTranslocation/0F1E/d/tunctl.app/Contents/MacOS/tunctl"
	if err := p.autostart(t).On(t.Context()); err == nil || !strings.Contains(err.Error(), "move it to Applications") {
		t.Errorf("err = %v", err)
	}
	if got := p.files(t); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

func TestUnitOff(t *testing.T) {
	p := newPlace(t, "linux").withSystemd(t)
	a := p.autostart(t)
	must.Do(t, a.On(t.Context()))
	must.Do(t, a.Off(t.Context()))
	for _, call := range p.calls {
		if strings.Contains(call, "stop") || strings.Contains(call, "--now") || strings.Contains(call, "restart") {
			t.Errorf("%q would end the tunnels", call)
		}
	}
}

func TestUnitReplacesDesktopEntry(t *testing.T) {
	p := newPlace(t, "linux")
	a := p.autostart(t)
	must.Do(t, a.On(t.Context()))
	p.withSystemd(t)
	must.Do(t, a.On(t.Context()))
	if exists(filepath.Join(p.configDir, "autostart", "tunctl-agent.desktop")) {
		t.Error("the agent would be started twice")
	}
	if s := status(t, a); !s.On || s.Entries[0].Kind != "systemd" {
		t.Errorf("got %+v, want the agent started by systemd", s)
	}
}

func TestAutostartOthersFiles(t *testing.T) {
	p := newPlace(t, "linux").withSystemd(t)
	other := filepath.Join(p.configDir, "autostart", "other.desktop")
	must.Do(t, os.MkdirAll(filepath.Dir(other), 0o755))
	must.Do(t, os.WriteFile(other, []byte("x"), 0o644))
	a := p.autostart(t)
	must.Do(t, a.On(t.Context()))
	must.Do(t, a.Off(t.Context()))
	if got := p.files(t); !reflect.DeepEqual(got, []string{".config/autostart/other.desktop"}) {
		t.Errorf("left: %q", got)
	}
}

func TestFollow(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		t.Run(system, func(t *testing.T) {
			p := newPlace(t, system)
			must.Do(t, p.autostart(t).On(t.Context()))
			old := p.program
			p.program = filepath.Join(filepath.Dir(old), "new place", "tunctl")
			second := p.autostart(t)

			must.Do(t, second.Follow(t.Context()))
			s := status(t, second)
			if s.On || !s.Entries[0].Stale || s.Entries[0].Program != old {
				t.Errorf("a second copy took over: %+v", s)
			}
			must.Do(t, os.Remove(old))
			must.Do(t, second.Follow(t.Context()))
			if s := status(t, second); !s.On || s.Entries[0].Program != p.program {
				t.Errorf("the entries did not follow: %+v", s)
			}
		})
	}
}

func TestFollowChangedEntry(t *testing.T) {
	for _, tt := range []struct {
		place         func(t *testing.T) *place
		file          string
		ours, changed string
	}{
		{
			func(t *testing.T) *place { return newPlace(t, "linux").withSystemd(t) }, ".config/systemd/user/tunctl.service",
			"RestartSec=1\n", "RestartSec=7\n",
		},
		{
			func(t *testing.T) *place { return newPlace(t, "darwin") }, "Library/LaunchAgents/tunctl.agent.plist",
			"<integer>1</integer>", "<integer>70</integer>",
		},
	} {
		p := tt.place(t)
		a := p.autostart(t)
		must.Do(t, a.On(t.Context()))
		path := filepath.Join(p.homeDir, tt.file)
		text := contents(t, path)
		if err := a.StartAgent(t.Context()); (err == nil) != (p.system == "linux") {
			t.Errorf("the agent of an entry of ours: %v", err)
		}
		changed := strings.Replace(text, tt.ours, tt.changed, 1)
		must.Do(t, os.WriteFile(path, []byte(changed), 0o644))
		must.Do(t, a.Follow(t.Context()))
		if got := contents(t, path); got != changed {
			t.Errorf("%q became\n%s", tt.changed, got)
		}
		if err := a.StartAgent(t.Context()); err == nil {
			t.Errorf("with %q the agent was started", tt.changed)
		}
	}
}

func TestDesktopEntryDisabled(t *testing.T) {
	p := newPlace(t, "linux")
	a := p.autostart(t)
	must.Do(t, a.On(t.Context()))
	path := filepath.Join(p.configDir, "autostart", "tunctl-tray.desktop")
	for _, line := range []string{"Hidden=true\n", "X-GNOME-Autostart-enabled=false\n"} {
		text := strings.Replace(desktopText(Tray, p.program), "X-GNOME-Autostart-enabled=true\n", line, 1)
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		s := status(t, a)
		if e := s.Entries[1]; s.On || !e.Installed || e.Enabled {
			t.Errorf("with %q: %+v", line, s)
		}
	}
	must.Do(t, a.On(t.Context()))
	if s := status(t, a); !s.On {
		t.Errorf("on did not switch it on again: %+v", s)
	}
}

// oddPaths are programs whose names the formats must quote.
var oddPaths = []string{
	"/usr/bin/tunctl", "/opt/my tools/tunctl", `/opt/a"b/tunctl`, `/opt/a\b/tunctl`, "/opt/100%/tunctl",
	"/opt/a&<b>/tunctl", "/opt/$HOME/tunctl", "/opt/`id`/tunctl", "/opt/ü/tunctl",
}

func TestProgramReadBack(t *testing.T) {
	for _, program := range oddPaths {
		if got := unitProgram(unitText(Agent, program)); got != program {
			t.Errorf("from the unit: %q, want %q", got, program)
		}
		if got := desktopValue(desktopText(Tray, program), "TryExec"); got != program {
			t.Errorf("from the desktop entry: %q, want %q", got, program)
		}
		plist := plistText(Agent, program)
		if got := plistProgram(plist); got != program {
			t.Errorf("from the plist: %q, want %q", got, program)
		}
		if err := xml.Unmarshal([]byte(plist), new(any)); err != nil {
			t.Errorf("the plist for %q is not XML: %v", program, err)
		}
	}
	if got := unitProgram("ExecStart=/usr/bin/tunctl agent run --x\n"); got != "/usr/bin/tunctl" {
		t.Errorf("from a unit written by hand: %q", got)
	}
}

func TestUnitRefusedProgram(t *testing.T) {
	for _, name := range []string{`a"b`, `a\b`, "it's"} {
		p := newPlace(t, "linux").withSystemd(t)
		p.program = "/opt/" + name + "/tunctl"
		if err := p.autostart(t).On(t.Context()); err == nil {
			t.Errorf("%q was taken", p.program)
		}
	}
}

func TestRestartDelay(t *testing.T) {
	unit := unitText(Agent, "/usr/bin/tunctl")
	for _, line := range []string{"Restart=on-failure", fmt.Sprintf("RestartSec=%.0f", RestartDelay.Seconds())} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit lacks %q", line)
		}
	}
	// systemd gives up after StartLimitBurst starts, and then nobody could be told: by then
	// the agent has long stopped connecting.
	if !strings.Contains(unit, "StartLimitIntervalSec=300\nStartLimitBurst=10\n") {
		t.Error("systemd's own limit has changed")
	}
	plist := plistText(Agent, "/usr/bin/tunctl")
	for _, text := range []string{
		"<key>SuccessfulExit</key>\n\t\t<false/>", // a stop is final, a crash is not
		"<key>ThrottleInterval</key>\n\t<integer>1</integer>",
	} {
		if !strings.Contains(plist, text) {
			t.Errorf("the plist lacks %q", text)
		}
	}
}

func TestUnsupervised(t *testing.T) {
	for name, tt := range map[string]struct {
		place *place
		want  bool
	}{
		"systemd":    {newPlace(t, "linux").withSystemd(t), false},
		"no systemd": {newPlace(t, "linux"), true},
		"macOS":      {newPlace(t, "darwin"), false},
	} {
		a := tt.place.autostart(t)
		if alone, err := a.Unsupervised(t.Context()); alone || err != nil {
			t.Errorf("%s, off: %v, %v", name, alone, err)
		}
		must.Do(t, a.On(t.Context()))
		if alone, err := a.Unsupervised(t.Context()); alone != tt.want || err != nil {
			t.Errorf("%s, on: %v, %v", name, alone, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	a, err := New(false)
	must.Do(t, err)
	if self, _ := os.Executable(); a.program != self || status(t, a).On {
		t.Errorf("%q starts at login: %+v", a.program, status(t, a))
	}
	if a, err := newFor(machine{system: "windows"}); err != nil || len(a.methods) != 3 {
		t.Errorf("on Windows: %+v, %v", a, err)
	}
}

func TestUnitVerified(t *testing.T) {
	verify := testprogram.Need(t, "systemd-analyze")
	for _, name := range []string{"plain", "my tools", "100%", "ü", "a$HOME"} {
		dir := filepath.Join(t.TempDir(), name)
		must.Do(t, os.MkdirAll(dir, 0o755))
		program := filepath.Join(dir, "tunctl")
		must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
		path := filepath.Join(dir, unitName)
		must.Do(t, os.WriteFile(path, []byte(unitText(Agent, program)), 0o644))
		cmd := exec.CommandContext(t.Context(), verify, "verify", "--user", "--man=no", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		// It also names flaws of the system's own units; ours are those of this path.
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "tunctl") || err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestUnitEnabled(t *testing.T) {
	systemctl := testprogram.Need(t, "systemctl")
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "systemd", "user")
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, unitName), []byte(unitText(Agent, "/usr/bin/tunctl")), 0o644))
	out, err := exec.CommandContext(t.Context(), systemctl, "--root="+root, "--global", "enable", unitName).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !exists(filepath.Join(dir, "default.target.wants", unitName)) {
		t.Errorf("the unit is not wanted by default.target: %s", out)
	}
}

func TestDesktopEntryValidated(t *testing.T) {
	validate := testprogram.Need(t, "desktop-file-validate")
	for _, part := range []Part{Agent, Tray} {
		for _, program := range oddPaths {
			path := filepath.Join(t.TempDir(), "tunctl.desktop")
			must.Do(t, os.WriteFile(path, []byte(desktopText(part, program)), 0o644))
			if out, err := exec.CommandContext(t.Context(), validate, path).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s as %q: %v: %s", part, program, err, out)
			}
		}
	}
}
