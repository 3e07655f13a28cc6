//go:build linux

package realssh

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

// TestNothingTypedIsLoggedOrStored looks into every file, the report for bugs and the
// agent's process for what the user typed: right and wrong passwords, and a code.
func TestNothingTypedIsLoggedOrStored(t *testing.T) {
	d := newDesk(t, "", nil)
	const mistyped = "correct-horse-battery"
	k := d.run("login", "lab-pass", "--remember")
	k.Expect("password:")
	k.AnswerHidden(mistyped)
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("connected to lab-pass")
	k.End()
	code := d.lab.Code()
	k = d.run("login", "lab-otp")
	k.Expect("One-time password")
	k.AnswerHidden(code)
	k.Expect("connected to lab-otp")
	k.End()

	bundle := filepath.Join(t.TempDir(), "report.zip")
	if status, said := d.run("doctor", "--bundle", bundle).End(); status != 0 {
		t.Fatalf("exit code %d:\n%s", status, said)
	}
	places := d.files()
	d.addBundle(places, bundle)
	d.addAgent(places)
	for _, needed := range []string{"state/agent.log", "bundle agent.log", "agent cmdline"} {
		if len(places[needed]) == 0 {
			t.Fatalf("%s was not looked at", needed)
		}
	}
	typed := regexp.MustCompile(mistyped + `|` + real.Password + `|(?:^|[^\w.])` + code + `\b`) // six digits may end a time
	for place, text := range places {
		if found := typed.FindString(text); found != "" {
			t.Errorf("%s has %q", place, found)
		}
	}
}

// files are all files of the home, by their paths.
func (d *desk) files() map[string]string {
	d.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(d.home, path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func (d *desk) addBundle(places map[string]string, path string) {
	d.t.Helper()
	bundle, err := zip.OpenReader(path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = bundle.Close() }()
	for _, file := range bundle.File {
		text, err := fs.ReadFile(bundle, file.Name)
		if err != nil {
			d.t.Fatal(err)
		}
		places["bundle "+file.Name] = string(text)
	}
}

// addAgent adds what others can see of the agent's process.
func (d *desk) addAgent(places map[string]string) {
	d.t.Helper()
	_, said := d.run("agent", "status", "--json").End()
	pid := regexp.MustCompile(`"pid": (\d+)`).FindStringSubmatch(said)
	if pid == nil {
		d.t.Fatalf("no agent: %s", said)
	}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%s/%s", pid[1], name))
		if err != nil {
			d.t.Fatal(err)
		}
		places["agent "+name] = strings.ReplaceAll(string(text), "\x00", " ")
	}
}
