package configs

import "testing"

// inSession is a session with more lines, from line 4 on.
func inSession(lines string) string {
	return "[session.a]\nhost = \"x\"\nsubmit = \"y\"\n" + lines + "\n"
}

// inForwards is a session without a job with more lines, from line 4 on.
func inForwards(lines string) string {
	return "[session.a]\nhost = \"x\"\nopen = true\n" + lines + "\n"
}

func TestBadSessionsAreRefused(t *testing.T) {
	checkProblems(t, []problem{
		{"no host and nothing to bring up", "[session.a]\nopen = true\n[host.cedar]\n", `
config.toml:1:2: [session.a] has no host
  1 | [session.a]
    |  ^^^^^^^^^
  add: host = "cedar"
config.toml:1:2: [session.a] needs a job, submit or forward
  1 | [session.a]
    |  ^^^^^^^^^
  add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward
`},
		{"a mistyped key is not missed", "[session.a]\nhots = \"x\"\nsubmitt = \"y\"\n", `
config.toml:2:1: unknown key "hots" in [session.a]
  2 | hots = "x"
    | ^^^^
  did you mean "host"?
config.toml:3:1: unknown key "submitt" in [session.a]
  3 | submitt = "y"
    | ^^^^^^^
  did you mean "submit"?
`},
		{"what may be missing is not missed when a line cannot be read", "[session.a]\nhost = x\njob = y\n", `
config.toml:2:8: "x" is neither quoted text, a number, true nor false
  2 | host = x
    |        ^
  text needs quotes: "x"
config.toml:3:7: "y" is neither quoted text, a number, true nor false
  3 | job = y
    |       ^
  text needs quotes: "y"
`},
		{"a reach that is not in the set", inSession(`reach = "direct"`), `
config.toml:4:9: "direct" is not one of "auto", "login", "node" or "here"
  4 | reach = "direct"
    |         ^^^^^^^^
`},
		{"ports out of range", inSession("local = 65536") + "[session.b]\nhost = 'x'\njob = 'y'\nlocal = -1\n", `
config.toml:4:9: "local" must be a number from 1 to 65535, not 65536
  4 | local = 65536
    |         ^^^^^
  write: local = 8888
config.toml:8:9: "local" must be a number from 1 to 65535, not -1
  8 | local = -1
    |         ^^
  write: local = 8888
`},
		{"a prefix without a script", inSession("") + "[session.b]\nhost = 'x'\nsubmit = 'local:'\n", `
config.toml:7:10: "local:" has no name after the colon
  7 | submit = 'local:'
    |          ^^^^^^^^
  write "local:./jupyter.sh" or "builtin:jupyter"
`},
		{"a page's port without a page", "[session.a]\nhost = 'x'\nsubmit = 'builtin:shell'\nlocal = 8888\n", `
config.toml:4:1: [session.a] has no page, so it has no local port
  4 | local = 8888
    | ^^^^^
  remove it; "forward" is for ports of the job
`},
		{"a page of a job that has none", "[session.a]\nhost = 'x'\nsubmit = 'builtin:shell'\napp = 'jupyter'\n", `
config.toml:4:7: "builtin:shell" serves nothing to look for in its log
  4 | app = 'jupyter'
    |       ^^^^^^^^^
  write: app = "shell"
`},
		{"no page for a job that has one", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupyter'\napp = 'shell'\n", `
config.toml:4:7: "builtin:jupyter" serves a page, and app = "shell" is for a session without one
  4 | app = 'shell'
    |       ^^^^^^^
  write: submit = "builtin:shell", or remove app
`},
		{"a shell without a job", "[session.a]\nhost = 'x'\nforward = ['1:x:1']\napp = 'shell'\n", `
config.toml:4:7: [session.a] has no job to run a shell in
  4 | app = 'shell'
    |       ^^^^^^^
  add: submit = "builtin:shell"
`},
		{"a pattern for shells", inSession("") + "[app.shell]\npatterns = ['(?P<port>1)']\n", `
config.toml:5:2: "shell" is the app of sessions without a page
  5 | [app.shell]
    |  ^^^^^^^^^
  choose another name for your own app
`},
		{"keep without submit", "[session.a]\nhost = 'x'\njob = 'y'\nkeep = true\n", `
config.toml:4:1: [session.a] cannot keep a job that it does not submit
  4 | keep = true
    | ^^^^
  add: submit = "~/job.sh"
`},
		{"unknown placeholders", inSession(`log = "~/{nam}/{jobid}.{id}"`), `
config.toml:4:10: unknown placeholder {nam}
  4 | log = "~/{nam}/{jobid}.{id}"
    |          ^^^^^
  did you mean {name}?
config.toml:4:16: unknown placeholder {jobid}
  4 | log = "~/{nam}/{jobid}.{id}"
    |                ^^^^^^^
  available: {id}, {name}, {user}, {node}
`},
		{"remote forwards beside a job", inSession(`forward = ["6006", "R:9000:localhost:9000"]`), `
config.toml:4:20: [session.a] has a job, and "R:9000:localhost:9000" would listen on the login node
  4 | forward = ["6006", "R:9000:localhost:9000"]
    |                    ^^^^^^^^^^^^^^^^^^^^^^^
  move it to a session of its own: [session.a-ports]
`},
		{"forwards of the ssh config beside a job", inSession(`forward = "ssh_config"`), `
config.toml:4:11: [session.a] has a job, and the forwards of the ssh config are from the login node
  4 | forward = "ssh_config"
    |           ^^^^^^^^^^^^
  move it to a session of its own: [session.a-ports]
`},
		{"a builtin job that there is not", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupiter'\nwith = { hours = 1 }\n", `
config.toml:3:10: no job "builtin:jupiter" comes with tunctl
  3 | submit = 'builtin:jupiter'
    |          ^^^^^^^^^^^^^^^^^
  did you mean "builtin:jupyter"?
`},
		{"an app that is nearly one", inSession(`app = "jupiter"`), `
config.toml:4:7: unknown app "jupiter"
  4 | app = "jupiter"
    |       ^^^^^^^^^
  did you mean "jupyter"?
`},
		{"an app that nothing recognises", inSession(`app = "zope"`) + "[app.mine]\npatterns = ['(?P<port>1)']\n", `
config.toml:4:7: unknown app "zope"
  4 | app = "zope"
    |       ^^^^^^
  available: mine, jupyter, rstudio, matlab, code-server, vscode-tunnel, marimo, pluto, novnc, vnc, paraview, command, streamlit, gradio, bokeh, vite, nextjs, vllm, ollama, tensorboard, mlflow, dask, ray, spark, http, shell; or add a section [app.zope] with patterns
`},
		{"a placeholder that is not closed", inSession(`log = "~/{id.log"`), `
config.toml:4:10: the placeholder has no closing }
  4 | log = "~/{id.log"
    |          ^^^^^^^
`},
		{"the scheduler's placeholders", inSession(`log = "slurm-%j.out"`), `
config.toml:4:7: scheduler placeholders are not supported here
  4 | log = "slurm-%j.out"
    |       ^^^^^^^^^^^^^^
  write: log = "slurm-{id}.out"
`},
		{"a log here without a whole path", inSession(`log = "local:{id}.log"`), `
config.toml:4:7: "{id}.log" is not an absolute path
  4 | log = "local:{id}.log"
    |       ^^^^^^^^^^^^^^^^
  write "local:/mnt/home/{name}.{id}.log"
`},
		{"bad forwards", inForwards(`forward = ["5432:db", 'R:9000']`), `
config.toml:4:12: bad forward "5432:db": the target "db" has no port
  4 | forward = ["5432:db", 'R:9000']
    |            ^^^^^^^^^
  write "6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"
config.toml:4:23: bad forward "R:9000": the target is missing
  4 | forward = ["5432:db", 'R:9000']
    |                       ^^^^^^^^
  write "6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"
`},
		{"one forward that is no list", inForwards(`forward = "5432:db:5432"`), `
config.toml:4:11: "forward" in [session.a] must be a list or "ssh_config"
  4 | forward = "5432:db:5432"
    |           ^^^^^^^^^^^^^^
  write: forward = ["5432:db:5432"]
`},
	})
}

func TestALocalPortIsWantedOnce(t *testing.T) {
	other := "[session.b]\nhost = \"x\"\njob = \"z\"\n"
	checkProblems(t, []problem{
		{"by two sessions", inSession("local = 8888") + other + "local = 8_888", `
config.toml:8:9: [session.b] uses local port 8888, which [session.a] on line 4 uses too
  8 | local = 8_888
    |         ^^^^^
  use a different port
`},
		{"by a session and a forward", inSession("local = 8888") + "[session.b]\nhost = 'x'\nopen = true\n" + `forward = ["80:x:80", "*:8888:x:80"]`, `
config.toml:8:23: [session.b] uses local port 8888, which [session.a] on line 4 uses too
  8 | forward = ["80:x:80", "*:8888:x:80"]
    |                       ^^^^^^^^^^^^^
  use a different port
`},
		{"by two forwards of one session", inForwards("forward = [\n\"80:x:80\",\n\"D:80\",\n]"), `
config.toml:6:1: [session.a] uses local port 80 twice, first on line 5
  6 | "D:80",
    | ^^^^^^
`},
	})
	parse(t, inForwards(`forward = ["0:80", "0:81", "D:0"]`)+"[session.c]\nhost = 'x'\njob = 'j'\nforward = ['0:80', '6006', 'D:1080']\n")
	parse(t, inForwards(`forward = ["80:x:80", "10.0.0.1:80:x:80", "R:80:localhost:80", "/run/80:x:80"]`)+other+`local = 81`)
}

func TestBadAppsAreRefused(t *testing.T) {
	checkProblems(t, []problem{
		{"a bad pattern", "[app.x]\npatterns = ['(?P<port>\\d+', '(?P<prot>x)(?P<port>1)']", `
config.toml:2:13: bad pattern: missing closing ): ` + "`(?P<port>\\d+`" + `
  2 | patterns = ['(?P<port>\d+', '(?P<prot>x)(?P<port>1)']
    |             ^^^^^^^^^^^^^^
  patterns are Go regular expressions: https://pkg.go.dev/regexp/syntax
config.toml:2:33: unknown group "prot": a pattern's groups are "host", "port", "token", "path" or "scheme"
  2 | patterns = ['(?P<port>\d+', '(?P<prot>x)(?P<port>1)']
    |                                 ^^^^^^
  did you mean "port"?
`},
		{"nothing that tells where", "[app.x]\npatterns = ['ready', 'key=(?P<token>\\w+)']", `
config.toml:2:12: no pattern of [app.x] has a group named port or host
  2 | patterns = ['ready', 'key=(?P<token>\w+)']
    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  write: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']
`},
		{"an empty list", "[app.x]\npatterns = []", `
config.toml:2:12: no pattern of [app.x] has a group named port or host
  2 | patterns = []
    |            ^^
  write: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']
`},
		{"no patterns", "[app.x]\n", `
config.toml:1:2: [app.x] has no patterns
  1 | [app.x]
    |  ^^^^^
  add: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']
`},
	})
	c := parse(t, "[app.x]\npatterns = ['port (?P<port>\\d+)', 'key (?P<token>\\w+)']")
	if len(c.Apps[0].Patterns) != 2 {
		t.Errorf("a pattern that adds a token from another line is lost: %v", c.Apps)
	}
}

func TestAnswersForABuiltinJobAreTextOrNumbers(t *testing.T) {
	cfg, err := Parse("config.toml", []byte("[session.a]\nhost = \"x\"\nsubmit = \"builtin:jupyter\"\nwith = { account = \"def-x\", gpus = 1, hours = 0.5 }\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Sessions[0]
	if s.Builtin() != "jupyter" || s.With["account"] != "def-x" || s.With["gpus"] != "1" || s.With["hours"] != "0.5" {
		t.Errorf("%+v", s)
	}
	checkProblems(t, []problem{
		{"an answer that is a list", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupyter'\nwith = { gpus = [1] }\n", `
config.toml:4:17: "gpus" in [session.a.with] must be text in quotes or a number, not a list
  4 | with = { gpus = [1] }
    |                 ^^^
  write: gpus = 1
`},
		{"answers for a script of one's own", inSession(`with = { gpus = 1 }`), `
config.toml:4:1: "with" works only with a builtin job
  4 | with = { gpus = 1 }
    | ^^^^
  write: submit = "builtin:jupyter"
`},
	})
}

func TestWhoMayUseASessionsForwardsIsRead(t *testing.T) {
	const head = "[session.web]\nhost = \"narval\"\nforward = [\"8080:web.int:80\"]\n"
	cfg, err := Parse("config.toml", []byte(head+"shared = true\nallow_hosts = [\"web.int\", \"lab.example\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := cfg.Session("web")
	if !s.Shared || len(s.AllowHosts) != 2 || s.AllowHosts[1] != "lab.example" {
		t.Errorf("got %+v", s)
	}
	if cfg, err = Parse("config.toml", []byte(head)); err != nil || cfg.Sessions[0].Shared {
		t.Errorf("it is shared by itself: %v", err)
	}
	for _, bad := range []string{"http://lab.example", "lab.example:8080", "*", "*.example", ""} {
		if _, err := Parse("config.toml", []byte(head+"allow_hosts = [\""+bad+"\"]\n")); err == nil {
			t.Errorf("%q was taken for a name", bad)
		}
	}
}

func TestAJobThatServesNothingNeedsNoApp(t *testing.T) {
	for _, more := range []string{"", "app = 'shell'\n"} {
		c := parse(t, "[session.gpu]\nhost = 'x'\nsubmit = 'builtin:shell'\n"+more)
		if s := c.Sessions[0]; s.App != ShellApp || s.Builtin() != ShellApp {
			t.Errorf("%q: %+v", more, s)
		}
	}
	c := parse(t, "[session.gpu]\nhost = 'x'\njob = 'train'\napp = 'shell'\n")
	if s := c.Sessions[0]; s.App != ShellApp {
		t.Errorf("a job of one's own: %+v", s)
	}
}

func TestAnAppsOtherNamesAreTaken(t *testing.T) {
	for name, want := range map[string]string{"jupyterlab": "jupyter", "notebook": "jupyter", "lab": "jupyter", "rstudio": "rstudio", "mine": "mine"} {
		c := parse(t, inSession("app = \""+name+"\"")+"[app.mine]\npatterns = ['(?P<port>1)']\n")
		if got := c.Sessions[0].App; got != want {
			t.Errorf("%s is read as %q", name, got)
		}
	}
	c := parse(t, inSession(`app = "lab"`)+"[app.lab]\npatterns = ['(?P<port>1)']\n")
	if got := c.Sessions[0].App; got != "lab" {
		t.Errorf("one's own app is read as %q", got)
	}
}
