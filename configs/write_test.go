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
		if err := Append(path, step.text); (err != nil) != step.fails {
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
		"Create": Create(filepath.Join(folder, "config.toml")),
		"Append": Append(filepath.Join(folder, "config.toml"), "notify = true\n"),
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
