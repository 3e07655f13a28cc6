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

func TestBadSessions(t *testing.T) {
	check := checker(t)
	check("no host and nothing to bring up", "[session.a]\nopen = true\n[host.cedar]\n",
		`1:2 [session.a] [session.a] has no host`, `→ add: host = "cedar"`,
		`1:2 [session.a] [session.a] needs a job, submit or forward`,
		`→ add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward`)
	check("a mistyped key is not missed", "[session.a]\nhots = \"x\"\nsubmitt = \"y\"\n",
		`2:1 [hots] unknown key "hots" in [session.a]`, `→ did you mean "host"?`,
		`3:1 [submitt] unknown key "submitt" in [session.a]`, `→ did you mean "submit"?`)
	check("what may be missing is not missed when a line cannot be read", "[session.a]\nhost = x\njob = y\n",
		`2:8 [x] "x" is neither quoted text, a number, true nor false`, `→ text needs quotes: "x"`,
		`3:7 [y] "y" is neither quoted text, a number, true nor false`, `→ text needs quotes: "y"`)
	check("a reach that is not in the set", inSession(`reach = "direct"`),
		`4:9 ["direct"] "direct" is not one of "auto", "login", "node" or "here"`)
	check("a job that cannot tell whether it is used", inSession("end_idle = '2h'"),
		`4:1 [end_idle] [session.a] cannot end an idle job: whether it is used is known of builtin:jupyter and builtin:code-server only`,
		`→ remove it, or set submit = "builtin:jupyter"; idle = "2h" tells you that the job is idle`)
	check("a time that is too short", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupyter'\nend_idle = '5m'\n[session.b]\nhost = 'x'\nsubmit = 'builtin:jupyter'\nend_idle = '2 fortnights'\n",
		`4:12 ['5m'] "5m" is too short: the least is 10 min`, `→ write: end_idle = "2h"`,
		`8:12 ['2 fortnights'] "2 fortnights" is not a time such as "30s" or "2m"`, `→ write: end_idle = "2h"`)
	check("ports out of range", inSession("local = 65536")+"[session.b]\nhost = 'x'\njob = 'y'\nlocal = -1\n",
		`4:9 [65536] "local" must be a number from 1 to 65535, not 65536`, `→ write: local = 8888`,
		`8:9 [-1] "local" must be a number from 1 to 65535, not -1`, `→ write: local = 8888`)
	check("a prefix without a script", inSession("")+"[session.b]\nhost = 'x'\nsubmit = 'local:'\n",
		`7:10 ['local:'] "local:" has no name after the colon`, `→ write "local:./jupyter.sh" or "builtin:jupyter"`)
	check("a page's port without a page", "[session.a]\nhost = 'x'\nsubmit = 'builtin:shell'\nlocal = 8888\n",
		`4:1 [local] [session.a] has no page, so it has no local port`, `→ remove it; "forward" is for ports of the job`)
	check("a page of a job that has none", "[session.a]\nhost = 'x'\nsubmit = 'builtin:shell'\napp = 'jupyter'\n",
		`4:7 ['jupyter'] "builtin:shell" serves nothing to look for in its log`, `→ write: app = "shell"`)
	check("no page for a job that has one", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupyter'\napp = 'shell'\n",
		`4:7 ['shell'] "builtin:jupyter" serves a page, and app = "shell" is for a session without one`,
		`→ write: submit = "builtin:shell", or remove app`)
	check("a shell without a job", "[session.a]\nhost = 'x'\nforward = ['1:x:1']\napp = 'shell'\n",
		`4:7 ['shell'] [session.a] has no job to run a shell in`, `→ add: submit = "builtin:shell"`)
	check("a pattern for shells", inSession("")+"[app.shell]\npatterns = ['(?P<port>1)']\n",
		`5:2 [app.shell] "shell" is the app of sessions without a page`, `→ choose another name for your own app`)
	check("keep without submit", "[session.a]\nhost = 'x'\njob = 'y'\nkeep = true\n",
		`4:1 [keep] [session.a] cannot keep a job that it does not submit`, `→ add: submit = "~/job.sh"`)
	check("unknown placeholders", inSession(`log = "~/{nam}/{jobid}.{id}"`),
		`4:10 [{nam}] unknown placeholder {nam}`, `→ did you mean {name}?`,
		`4:16 [{jobid}] unknown placeholder {jobid}`, `→ available: {id}, {name}, {user}, {node}`)
	check("remote forwards beside a job", inSession(`forward = ["6006", "R:9000:localhost:9000"]`),
		`4:20 ["R:9000:localhost:9000"] [session.a] has a job, and "R:9000:localhost:9000" would listen on the login node`,
		`→ move it to a session of its own: [session.a-ports]`)
	check("forwards of the ssh config beside a job", inSession(`forward = "ssh_config"`),
		`4:11 ["ssh_config"] [session.a] has a job, and the forwards of the ssh config are from the login node`,
		`→ move it to a session of its own: [session.a-ports]`)
	check("a builtin job that there is not", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupiter'\nwith = { hours = 1 }\n",
		`3:10 ['builtin:jupiter'] no job "builtin:jupiter" comes with tunctl`, `→ did you mean "builtin:jupyter"?`)
	check("an app that is nearly one", inSession(`app = "jupiter"`),
		`4:7 ["jupiter"] unknown app "jupiter"`, `→ did you mean "jupyter"?`)
	check("an app that nothing recognises", inSession(`app = "zope"`)+"[app.mine]\npatterns = ['(?P<port>1)']\n",
		`4:7 ["zope"] unknown app "zope"`,
		`→ available: mine, jupyter, rstudio, matlab, code-server, vscode-tunnel, marimo, pluto, novnc, vnc, paraview, command, streamlit, gradio, bokeh, vite, nextjs, vllm, ollama, tensorboard, mlflow, dask, ray, spark, http, shell; or add a section [app.zope] with patterns`)
	check("a placeholder that is not closed", inSession(`log = "~/{id.log"`),
		`4:10 [{id.log] the placeholder has no closing }`)
	check("the scheduler's placeholders", inSession(`log = "slurm-%j.out"`),
		`4:7 ["slurm-%j.out"] scheduler placeholders are not supported here`, `→ write: log = "slurm-{id}.out"`)
	check("a log here without a whole path", inSession(`log = "local:{id}.log"`),
		`4:7 ["local:{id}.log"] "{id}.log" is not an absolute path`, `→ write "local:/mnt/home/{name}.{id}.log"`)
	check("bad forwards", inForwards(`forward = ["5432:db", 'R:9000']`),
		`4:12 ["5432:db"] bad forward "5432:db": the target "db" has no port`,
		`→ write "6006", "0:6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`,
		`4:23 ['R:9000'] bad forward "R:9000": the target is missing`,
		`→ write "6006", "0:6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`)
	check("one forward that is no list", inForwards(`forward = "5432:db:5432"`),
		`4:11 ["5432:db:5432"] "forward" in [session.a] must be a list or "ssh_config"`, `→ write: forward = ["5432:db:5432"]`)
}

// TestLocalPortTwice: a local port is wanted once.
func TestLocalPortTwice(t *testing.T) {
	other := "[session.b]\nhost = \"x\"\njob = \"z\"\n"
	check := checker(t)
	check("by two sessions", inSession("local = 8888")+other+"local = 8_888",
		`8:9 [8_888] [session.b] uses local port 8888, which [session.a] on line 4 uses too`, `→ use a different port`)
	check("by a session and a forward", inSession("local = 8888")+"[session.b]\nhost = 'x'\nopen = true\n"+`forward = ["80:x:80", "*:8888:x:80"]`,
		`8:23 ["*:8888:x:80"] [session.b] uses local port 8888, which [session.a] on line 4 uses too`, `→ use a different port`)
	check("by two forwards of one session", inForwards("forward = [\n\"80:x:80\",\n\"D:80\",\n]"),
		`6:1 ["D:80"] [session.a] uses local port 80 twice, first on line 5`)
	parse(t, inForwards(`forward = ["0:80", "0:81", "D:0"]`)+"[session.c]\nhost = 'x'\njob = 'j'\nforward = ['0:80', '6006', 'D:1080']\n")
	parse(t, inForwards(`forward = ["80:x:80", "10.0.0.1:80:x:80", "R:80:localhost:80", "/run/80:x:80"]`)+other+`local = 81`)
}

func TestBadApps(t *testing.T) {
	check := checker(t)
	check("a bad pattern", "[app.x]\npatterns = ['(?P<port>\\d+', '(?P<prot>x)(?P<port>1)']",
		"2:13 ['(?P<port>\\d+'] bad pattern: missing closing ): `(?P<port>\\d+`",
		`→ patterns are Go regular expressions: https://pkg.go.dev/regexp/syntax`,
		`2:33 [<prot>] unknown group "prot": a pattern's groups are "host", "port", "token", "path" or "scheme"`,
		`→ did you mean "port"?`)
	check("nothing that tells where", "[app.x]\npatterns = ['ready', 'key=(?P<token>\\w+)']",
		`2:12 [['ready', 'key=(?P<token>\w+)']] no pattern of [app.x] has a group named port or host`,
		`→ write: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']`)
	check("an empty list", "[app.x]\npatterns = []",
		`2:12 [[]] no pattern of [app.x] has a group named port or host`,
		`→ write: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']`)
	check("no patterns", "[app.x]\n",
		`1:2 [app.x] [app.x] has no patterns`, `→ add: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']`)
	c := parse(t, "[app.x]\npatterns = ['port (?P<port>\\d+)', 'key (?P<token>\\w+)']")
	if len(c.Apps[0].Patterns) != 2 {
		t.Errorf("a pattern that adds a token from another line is lost: %v", c.Apps)
	}
}

// TestSessionAnswers: answers for a builtin job are text or numbers.
func TestSessionAnswers(t *testing.T) {
	cfg, err := Parse("config.toml", []byte("[session.a]\nhost = \"x\"\nsubmit = \"builtin:jupyter\"\nwith = { account = \"def-x\", gpus = 1, hours = 0.5 }\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Sessions[0]
	if s.Builtin() != "jupyter" || s.With["account"] != "def-x" || s.With["gpus"] != "1" || s.With["hours"] != "0.5" {
		t.Errorf("%+v", s)
	}
	check := checker(t)
	check("an answer that is a list", "[session.a]\nhost = 'x'\nsubmit = 'builtin:jupyter'\nwith = { gpus = [1] }\n",
		`4:17 [[1]] "gpus" in [session.a.with] must be text in quotes or a number, not a list`, `→ write: gpus = 1`)
	check("answers for a script of one's own", inSession(`with = { gpus = 1 }`),
		`4:1 [with] "with" works only with a builtin job`, `→ write: submit = "builtin:jupyter"`)
}

// TestSessionShared: who may use a session's forwards is read.
func TestSessionShared(t *testing.T) {
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

// TestSessionWithoutPage: a job that serves nothing needs no app.
func TestSessionWithoutPage(t *testing.T) {
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

// TestAppAliases: an app's other names are taken.
func TestAppAliases(t *testing.T) {
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
