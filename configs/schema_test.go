package configs

import (
	"strings"
	"testing"
)

// TestUnknownKeys: unknown keys and tables are refused.
func TestUnknownKeys(t *testing.T) {
	check := checker(t)
	check("a slip", "[session.jupyter]\nhost = \"x\"\njob = \"y\"\n\nopen = true\n\nlocall = 8888\n",
		`7:1 [locall] unknown key "locall" in [session.jupyter]`, `→ did you mean "local"?`)
	check("nothing near", "colour = 1",
		`1:1 [colour] unknown key "colour"`, `→ available: notify, ssh_config, host, session, app, mcp`)
	check("a part too many", "[session.jupyter]\nhost = \"x\"\njob = \"y\"\nlocal_port = 8888\n",
		`4:1 [local_port] unknown key "local_port" in [session.jupyter]`, `→ did you mean "local"?`)
	check("a session's key at the top", "local = 8888",
		`1:1 [local] unknown key "local"`, `→ this key belongs in [session.NAME]`)
	check("a top key in a table", "[host.a]\nnotify = true",
		`2:1 [notify] unknown key "notify" in [host.a]`, `→ this key belongs at the top of the file, above all sections`)
	check("a table's name in the plural", "[hosts.x]\n[hosts.y]\n",
		`1:2 [hosts.x] unknown section [hosts.x]`, `→ did you mean [host.x]?`,
		`2:2 [hosts.y] unknown section [hosts.y]`, `→ did you mean [host.y]?`)
	check("another table", "[tunnel.x]\n[settings]\n",
		`1:2 [tunnel.x] unknown section [tunnel.x]`, `→ the sections are [host.NAME], [session.NAME] and [app.NAME]`,
		`2:2 [settings] unknown section [settings]`)
	check("a dot in a name", "[session.my.notebook]\nhost = \"x\"\njob = \"y\"\n",
		`1:2 [session.my.notebook] unknown section [session.my.notebook]`,
		`→ a name with a dot needs quotes: [session."my.notebook"]`)
	check("a dotted key", "[host.a]\nssh.user = \"x\"\nfoo.bar = 1\n",
		`2:1 [ssh] "ssh" in [host.a] must be text in quotes, not a section`, `→ write: ssh = "alice@login.example.org"`,
		`3:1 [foo] unknown key "foo" in [host.a]`,
		`→ available: ssh, site, scheduler, transport, before_login, transfer, private, resume`)
	check("a key of a kind of table", "[host]\nssh = \"x\"\n",
		`2:1 [ssh] [host] needs a name: "ssh" belongs in [host.NAME]`, `→ write: [host.NAME]`)
	check("a value for a table", "session = \"jupyter\"\n",
		`1:11 ["jupyter"] "session" must be a section, not text`, `→ write: [session.NAME]`)
}

// TestWrongTypes: wrong types are refused with an example.
func TestWrongTypes(t *testing.T) {
	check := checker(t)
	check("text for a number", "[session.a]\nhost = \"x\"\njob = \"y\"\nlocal = \"8888\"\n",
		`4:9 ["8888"] "local" in [session.a] must be a number, not text`, `→ write: local = 8888`)
	check("a number for text", "ssh_config = 5\n",
		`1:14 [5] "ssh_config" must be text in quotes, not a number`, `→ write: ssh_config = "~/.ssh/config"`)
	check("text for true", "[session.a]\nhost = \"x\"\njob = \"y\"\nkeep = \"yes\"\n",
		`4:8 ["yes"] "keep" in [session.a] must be true or false, not text`, `→ write: keep = true`)
	check("text for a list", "[session.a]\nhost = \"x\"\nsubmit = \"y\"\nargs = \"--time=1\"\n",
		`4:8 ["--time=1"] "args" in [session.a] must be a list, not text`, `→ write: args = ["--time=2:00:00"]`)
	check("numbers in a list of texts", "[session.a]\nhost = \"x\"\nsubmit = \"y\"\nargs = [\n  \"-n\", 4,\n  [1],\n]\n",
		`4:8 [[] "args" in [session.a] must be a list of texts in quotes, not a list`, `→ write: args = ["--time=2:00:00"]`,
		`5:9 [4] "args" in [session.a] must be a list of texts in quotes, not a number`, `→ write: args = ["--time=2:00:00"]`)
	check("true for a word", "[host.a]\nscheduler = false\ntransport = 1.5\n",
		`2:13 [false] "scheduler" in [host.a] must be one of "slurm", "pbs", "gridengine" or "none", not true or false`,
		`→ write: scheduler = "slurm"`,
		`3:13 [1.5] "transport" in [host.a] must be one of "native" or "openssh", not a number with a decimal point`,
		`→ write: transport = "native"`)
	check("a date, a list and a table for text", "[host.a]\nssh = 2020-01-01\nsite = ['x']\nbefore_login = {}\n",
		`2:7 [2020-01-01] "ssh" in [host.a] must be text in quotes, not a date or time`, `→ write: ssh = "alice@login.example.org"`,
		`3:8 [['x']] "site" in [host.a] must be text in quotes, not a list`, `→ write: site = "narval"`,
		`4:16 [{}] "before_login" in [host.a] must be text in quotes, not a section`, `→ write: before_login = "step ssh login"`)
	check("empty text", "[host.a]\nssh = \"\"\n",
		`2:7 [""] "ssh" in [host.a] is empty`, `→ write: ssh = "alice@login.example.org"`)
	check("text of several lines", "[host.a]\nbefore_login = \"a\\nb\"\n",
		`2:16 ["a\nb"] "before_login" in [host.a] must be one line without control characters`)
	check("a kind of notification", "notify = [\"redy\"]\n",
		`1:11 ["redy"] "redy" is not one of "ready", "needs-login", "time-limit", "idle", "ended" or "link"`,
		`→ did you mean "ready"?`)
	check("an idle time", "[session.a]\nhost = \"x\"\njob = \"j\"\nidle = \"half an hour\"\n",
		`4:8 ["half an hour"] "half an hour" is not a time such as "30s" or "2m"`, `→ write: idle = "30m"`)
	check("an idle time that is too short", "[session.a]\nhost = \"x\"\njob = \"j\"\nidle = \"30s\"\n",
		`4:8 ["30s"] "30s" is too short: the least is 5 min`, `→ write: idle = "30m"`)
	check("an idle time without a job", "[session.a]\nhost = \"x\"\nforward = [\"80:db:80\"]\nidle = \"30m\"\n",
		`4:1 [idle] [session.a] has no job that could be idle`, `→ remove it, or add: job = "NAME"`)
}

func TestBadNames(t *testing.T) {
	check := checker(t)
	for _, name := range []string{`""`, `"-a"`, `".."`, `"a b"`, `"a/b"`, `"é"`, `"a\nb"`, `-a`} {
		check(name, "[host."+name+"]\n", "1:7 ["+name+`] "`+strings.Trim(name, `"`)+`" is not a valid host name`,
			"→ use letters, digits, '.', '_' and '-', and begin with a letter or digit")
	}
	parse(t, "[host.a-b_c]\n[host.\"1.2.3.4\"]\n[host._x]\n")
}

func TestBadHosts(t *testing.T) {
	check := checker(t)
	check("values that are not in the set", "[host.a]\nscheduler = \"slrum\"\ntransport = \"ssh\"\n",
		`2:13 ["slrum"] "slrum" is not one of "slurm", "pbs", "gridengine" or "none"`, `→ did you mean "slurm"?`,
		`3:13 ["ssh"] "ssh" is not one of "native" or "openssh"`)
	check("an option for a host", "[host.a]\nssh = \"-oProxyCommand=reboot\"\n",
		`2:7 ["-oProxyCommand=reboot"] "-oProxyCommand=reboot" is not a valid ssh host`, `→ write: ssh = "alice@login.example.org"`)
	for _, bad := range []string{"a b", "me@", "@x", "me@-x", "x;reboot", "$(x)", "`x`"} {
		if isDestination(bad) {
			t.Errorf("%q passes as a host", bad)
		}
	}
	for _, good := range []string{"narval", "alice@narval.ca", "ssh://me@x:2222", "fe80::1%eth0", "alice@realm@host"} {
		if !isDestination(good) {
			t.Errorf("%q is refused as a host", good)
		}
	}
}
