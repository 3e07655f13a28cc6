package configs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("config.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheExampleIsAGoodConfig(t *testing.T) {
	c := parse(t, example)
	want := &Config{
		Path:   "config.toml",
		Notify: Notify{Only: notifyKinds()},
		Hosts: []Host{
			{Name: "narval", SSH: "alice@narval.alliancecan.ca", Site: "narval", Scheduler: "slurm", Transport: "native"},
		},
		Sessions: []Session{
			{
				Name: "jupyter", Host: "narval", App: "jupyter", Job: "jupyterlab", Submit: "~/jupyter.sh",
				Args: []string{"--time=2:00:00", "--mem=8G"}, Workdir: "~/notebooks", Log: "~/notebooks/{name}.{id}.log",
				Local: 8888, Reach: api.ReachAuto, Open: true, Output: true,
			},
			{Name: "db", Host: "narval", Reach: api.ReachAuto, Open: true, Output: true, Forward: []ForwardSpec{
				{api.ForwardLocal, "127.0.0.1:5432", "db.int:5432"},
				{api.ForwardRemote, "localhost:9000", "localhost:9000"},
				{api.ForwardDynamic, "127.0.0.1:1080", ""},
			}},
		},
		Apps: c.Apps,
	}
	c.places = nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	m := c.Apps[0].Patterns[0].FindStringSubmatch("ready at http://n1:80/?key=k")
	if c.Apps[0].Name != "mytool" || len(m) != 4 {
		t.Errorf("the example's app reads as %+v", c.Apps)
	}
}

func TestTheExampleShowsEveryKey(t *testing.T) {
	keys := append(keysOf(new(Host).fields()), keysOf(new(Session).fields())...)
	keys = append(append(keys, keysOf(new(App).fields())...), "notify", "ssh_config")
	for _, key := range keys {
		if !strings.Contains(example, "\n"+key+" = ") && !strings.Contains(example, "\n# "+key+" = ") {
			t.Errorf("the example does not show %q", key)
		}
	}
}

func TestAnEmptyFileIsADefaultConfig(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing yet", "\uFEFF", "[host]\n[session]\n"} {
		if c := parse(t, text); !reflect.DeepEqual(c, &Config{Path: "config.toml"}) {
			t.Errorf("%q reads as %+v", text, c)
		}
	}
}

func TestTablesMayBeWrittenInEveryWayTOMLHas(t *testing.T) {
	want := []Host{{Name: "a.b", SSH: "x", Scheduler: "slurm"}, {Name: "c", SSH: "c"}}
	for _, text := range []string{
		"[host.\"a.b\"]\nssh = \"x\"\nscheduler = 'slurm'\n[host.c]\n",
		"[host]\n\"a.b\".ssh = 'x'\n\"a.b\".scheduler = 'slurm'\nc = {}\n",
		"host.\"a.b\".ssh = 'x'\nhost.\"a.b\".scheduler = 'slurm'\nhost.c = {}\n",
		"host = { \"a.b\" = { ssh = \"x\", scheduler = 'slurm' }, c = {} }\r\n",
		"[ host . \"a.b\" ]\nssh=\"\"\"\nx\"\"\"\nscheduler='slurm'\n[host.c]",
	} {
		if c := parse(t, text); !reflect.DeepEqual(c.Hosts, want) {
			t.Errorf("%s\nreads as %+v", text, c.Hosts)
		}
	}
}

func TestHostsAndSessionsAreFoundByName(t *testing.T) {
	c := parse(t, "[host.b]\nssh = \"me@b.org\"\n[host.a]\n[session.two]\nhost = \"a\"\njob = \"x\"\n[session.one]\nhost = \"b\"\njob = \"y\"\n")
	if c.Hosts[0].Name != "b" || c.Sessions[0].Name != "two" {
		t.Error("the order of the file is lost")
	}
	if h := c.Host("b"); h.SSH != "me@b.org" {
		t.Errorf("host b reads as %+v", h)
	}
	if h := c.Host("a"); h.SSH != "a" {
		t.Errorf("host a, which has no ssh key, reads as %+v", h)
	}
	if h := c.Host("alias"); h != (Host{Name: "alias", SSH: "alias"}) {
		t.Errorf("a host that is not in the file reads as %+v", h)
	}
	if s, ok := c.Session("one"); !ok || s.Job != "y" {
		t.Errorf("session one reads as %+v, %v", s, ok)
	}
	if _, ok := c.Session("three"); ok {
		t.Error("a session that is not in the file was found")
	}
}

func TestEveryKeyOfASessionIsRead(t *testing.T) {
	setHome(t, "/home/alice")
	c := parse(t, `
		ssh_config = "~/other"
		[session.a]
		host = "me@x"
		app = "rstudio"
		submit = "local:./x.sh"
		local = 0x1F90
		reach = "node"
		keep = true
		idle = "1h30m"
		open = false
		output = false
		log = "/scratch/{user}/{node}.log"`)
	want := Session{
		Name: "a", Host: "me@x", App: "rstudio", Submit: "local:./x.sh", Local: 8080, Reach: api.ReachNode, Keep: true, Idle: 90 * time.Minute,
		Log: "/scratch/{user}/{node}.log",
	}
	if !reflect.DeepEqual(c.Sessions[0], want) {
		t.Errorf("got  %+v\nwant %+v", c.Sessions[0], want)
	}
	if b := parse(t, "[session.b]\nhost = \"x\"\nforward = \"ssh_config\"").Sessions[0]; !b.ForwardSSHConfig {
		t.Errorf("got %+v", b)
	}
	if want := filepath.FromSlash("/home/alice/other"); c.SSHConfig != want {
		t.Errorf("ssh_config reads as %q", c.SSHConfig)
	}
}

func TestAssistantsHaveAsManyNodeHoursAsTheConfigSays(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "[mcp]\n": 0, "[mcp]\nnode_hours = 8\n": 8, "mcp = { node_hours = 0.5 }\n": 0.5} {
		cfg, err := Parse("config.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.MCP.NodeHours != want {
			t.Errorf("%q: %v", text, cfg.MCP.NodeHours)
		}
	}
	for _, text := range []string{"node_hours = -1", "node_hours = nan", "node_hours = \"8\"", "node_hours = 1e9", "hours = 8"} {
		if _, err := Parse("config.toml", []byte("[mcp]\n"+text+"\n")); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestNotifyAllowsWhatIsWanted(t *testing.T) {
	for _, tt := range []struct {
		text         string
		ready, ended bool
	}{
		{"", true, true},
		{"notify = true", true, true},
		{"notify = false", false, false},
		{"notify = []", false, false},
		{`notify = ["ready", "link"]`, true, false},
	} {
		n := parse(t, tt.text).Notify
		if n.Allows("ready") != tt.ready || n.Allows("ended") != tt.ended {
			t.Errorf("%s allows ready %v, ended %v", tt.text, n.Allows("ready"), n.Allows("ended"))
		}
	}
}

func TestLoadReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
	must(t, os.WriteFile(path, []byte("notify = false"), 0o600))
	c, err := Load(path)
	must(t, err)
	if c.Path != path || !c.Notify.Off {
		t.Errorf("the file reads as %+v", c)
	}
	must(t, os.WriteFile(path, []byte("notify = 1"), 0o600))
	_, err = Load(path)
	if e, ok := errors.AsType[*Error](err); !ok || e.File != path || e.Line != 1 || e.Column != 10 {
		t.Errorf("a bad file gives %v", err)
	}
}

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
