package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnAdditionKeepsTheFileAndNeverBreaksIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config.toml")
	const host, session = "[host.narval]\nsite = \"narval\"\n", "[session.lab]\nhost = \"narval\"\njob = \"lab\""
	for _, step := range []struct {
		text, want string // the addition, and the file after it
		fails      bool
	}{
		{text: host, want: host},
		{text: session, want: host + "\n" + session},
		{text: host, want: host + "\n" + session, fails: true}, // twice the same table
		{text: "[host.m3]\nsite = \"m3\"\n", want: host + "\n" + session + "\n\n[host.m3]\nsite = \"m3\"\n"},
	} {
		old, _ := os.ReadFile(path) // there is none at first
		if err := Replace(path, old, Appended(old, step.text)); (err != nil) != step.fails {
			t.Errorf("adding %q: %v", step.text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != step.want {
			t.Errorf("after adding %q: %q, want %q, %v", step.text, got, step.want, err)
		}
	}
	if err := Create(path); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(got), host) {
		t.Errorf("the example replaced a config: %q, %v", got, err)
	}
}

func TestAChangeKeepsTheRestOfTheFile(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"[host.a]\nssh = 'ann@a'  # mine\nsite = \"x\"\n": "[host.a]\nssh = \"bob@b\"  # mine\nsite = \"x\"\n",
		"\uFEFF[host.a] # it\r\n\r\n[host.b]\r\n":         "\uFEFF[host.a] # it\nssh = \"bob@b\"\r\n\r\n[host.b]\r\n",
		"[host.a]":                 "[host.a]\nssh = \"bob@b\"",
		"host.a.ssh = \"ann@a\"\n": "",
		"[host.b]\n":               "[host.b]\n\n[host.a]\nssh = \"bob@b\"\n",
	} {
		got, err := Changed([]byte(before), "host", "a", "ssh", `"bob@b"`)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q became %q, %v, want %q", before, got, err, want)
		}
	}
	with := "[session.s]\nhost = \"a\"\nsubmit = \"builtin:jupyter\"\nwith = {\n  hours = 2, # short\n}\nkeep = true\n"
	got, err := Changed([]byte(with), "session", "s", "with", "{ hours = 3 }")
	if want := "[session.s]\nhost = \"a\"\nsubmit = \"builtin:jupyter\"\nwith = { hours = 3 }\nkeep = true\n"; string(got) != want || err != nil {
		t.Errorf("it became %q, %v", got, err)
	}
}

func TestAConfigThatAnotherProgramChangedIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	link := path + ".link"
	if err := os.WriteFile(path, []byte("notify = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	if err := Replace(link, []byte("notify = false\n"), []byte("notify = []\n")); err == nil {
		t.Error("what the other wrote is lost")
	}
	if err := Replace(link, []byte("notify = true\n"), []byte("notify = false\n")); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(path)
	if got, _ := os.ReadFile(path); err != nil || string(got) != "notify = false\n" || info.Mode().Perm() != 0o640 {
		t.Errorf("the file behind the link has %q, mode %v, %v", got, info.Mode(), err)
	}
	if err := Replace(link, []byte("notify = false\n"), nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was not removed")
	}
}

func TestTheFirstConfigIsTheExample(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config.toml")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != example {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(folder, "..", "nowhere"), folder); err != nil {
		t.Skip(err)
	}
	for name, err := range map[string]error{
		"Create":  Create(filepath.Join(folder, "config.toml")),
		"Replace": Replace(filepath.Join(folder, "config.toml"), nil, []byte("notify = true\n")),
	} {
		if err == nil {
			t.Errorf("%s made a config in a link to nowhere", name)
		}
	}
}

func TestQuotedTextIsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/plain", "/with \"quotes\"", `/back\slash`, "/学習", "/a<b>&c"} {
		cfg, err := Parse("config.toml", []byte("ssh_config = "+Quote(path)+"\n"))
		if err != nil || cfg.SSHConfig != path {
			t.Errorf("%q is read as %+v, %v", path, cfg, err)
		}
	}
}

func TestControlCharactersAreQuoted(t *testing.T) {
	t.Parallel()
	if got, want := Quote("a\tb\x01\x7f<\""), `"a\tb\u0001\u007F<\""`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
