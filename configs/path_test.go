package configs

import (
	"path/filepath"
	"strings"
	"testing"
)

// setHome makes dir the home folder.
func setHome(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("HOME", filepath.FromSlash(dir))
	t.Setenv("USERPROFILE", filepath.FromSlash(dir))
}

func TestPathsOnThisComputerAreExpandedAndThoseOnAHostAreNot(t *testing.T) {
	setHome(t, "/home/alice")
	for _, c := range []struct{ text, want string }{
		{`submit = "~/job.sh"`, "~/job.sh"},
		{`submit = "local:~/job.sh"`, "local:/home/alice/job.sh"},
		{`submit = "local:./job.sh"`, "local:./job.sh"},
		{`submit = "local:~bob/job.sh"`, "local:~bob/job.sh"},
		{`log = "~/{id}.log"`, "~/{id}.log"},
		{`log = "local:~/mnt/{id}.log"`, "local:/home/alice/mnt/{id}.log"},
		{`workdir = "~/notebooks"`, "~/notebooks"},
		{`forward = ["~/pg.sock:db:5432"]`, "/home/alice/pg.sock:db:5432"},
		{`forward = ["5432:~/pg.sock"]`, "127.0.0.1:5432:~/pg.sock"},
	} {
		text := "[session.a]\nhost = \"x\"\n" + c.text
		if !strings.HasPrefix(c.text, "forward") {
			text += "\njob = \"y\"\n"
		}
		s := parse(t, text).Sessions[0]
		got := s.Submit + s.Log + s.Workdir
		for _, f := range s.Forward {
			got += f.String()
		}
		if filepath.ToSlash(got) != c.want {
			t.Errorf("%s reads as %q, want %q", c.text, got, c.want)
		}
	}
}

func TestSSHConfigIsAWholePath(t *testing.T) {
	setHome(t, "/home/alice")
	folder := t.TempDir()
	for text, want := range map[string]string{
		"~/.ssh/work": "/home/alice/.ssh/work", "none": "none", "work": filepath.Join(folder, "work"), filepath.Join(folder, "x"): filepath.Join(folder, "x"),
	} {
		c, err := Parse(filepath.Join(folder, "config.toml"), []byte("ssh_config = '"+text+"'\n"))
		if err != nil || filepath.ToSlash(c.SSHConfig) != filepath.ToSlash(want) {
			t.Errorf("%q reads as %+v, %v; want %q", text, c, err, want)
		}
	}
}
