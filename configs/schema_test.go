package configs

import "testing"

func TestUnknownKeysAndTablesAreRefused(t *testing.T) {
	checkProblems(t, []problem{
		{"a slip", "[session.jupyter]\nhost = \"x\"\njob = \"y\"\n\nopen = true\n\nlocall = 8888\n", `
config.toml:7:1: unknown key "locall" in [session.jupyter]
  7 | locall = 8888
    | ^^^^^^
  did you mean "local"?
`},
		{"nothing near", "colour = 1", `
config.toml:1:1: unknown key "colour"
  1 | colour = 1
    | ^^^^^^
  available: notify, ssh_config, host, session, app, mcp
`},
		{"a part too many", "[session.jupyter]\nhost = \"x\"\njob = \"y\"\nlocal_port = 8888\n", `
config.toml:4:1: unknown key "local_port" in [session.jupyter]
  4 | local_port = 8888
    | ^^^^^^^^^^
  did you mean "local"?
`},
		{"a session's key at the top", "local = 8888", `
config.toml:1:1: unknown key "local"
  1 | local = 8888
    | ^^^^^
  this key belongs in [session.NAME]
`},
		{"a top key in a table", "[host.a]\nnotify = true", `
config.toml:2:1: unknown key "notify" in [host.a]
  2 | notify = true
    | ^^^^^^
  this key belongs at the top of the file, above all sections
`},
		{"a table's name in the plural", "[hosts.x]\n[hosts.y]\n", `
config.toml:1:2: unknown section [hosts.x]
  1 | [hosts.x]
    |  ^^^^^^^
  did you mean [host.x]?
config.toml:2:2: unknown section [hosts.y]
  2 | [hosts.y]
    |  ^^^^^^^
  did you mean [host.y]?
`},
		{"another table", "[tunnel.x]\n[settings]\n", `
config.toml:1:2: unknown section [tunnel.x]
  1 | [tunnel.x]
    |  ^^^^^^^^
  the sections are [host.NAME], [session.NAME] and [app.NAME]
config.toml:2:2: unknown section [settings]
  2 | [settings]
    |  ^^^^^^^^
`},
		{"a dot in a name", "[session.my.notebook]\nhost = \"x\"\njob = \"y\"\n", `
config.toml:1:2: unknown section [session.my.notebook]
  1 | [session.my.notebook]
    |  ^^^^^^^^^^^^^^^^^^^
  a name with a dot needs quotes: [session."my.notebook"]
`},
		{"a dotted key", "[host.a]\nssh.user = \"x\"\nfoo.bar = 1\n", `
config.toml:2:1: "ssh" in [host.a] must be text in quotes, not a section
  2 | ssh.user = "x"
    | ^^^
  write: ssh = "alice@login.example.org"
config.toml:3:1: unknown key "foo" in [host.a]
  3 | foo.bar = 1
    | ^^^
  available: ssh, site, scheduler, transport, before_login, transfer, private, resume
`},
		{"a key of a kind of table", "[host]\nssh = \"x\"\n", `
config.toml:2:1: [host] needs a name: "ssh" belongs in [host.NAME]
  2 | ssh = "x"
    | ^^^
  write: [host.NAME]
`},
		{"a value for a table", "session = \"jupyter\"\n", `
config.toml:1:11: "session" must be a section, not text
  1 | session = "jupyter"
    |           ^^^^^^^^^
  write: [session.NAME]
`},
	})
}

func TestWrongTypesAreRefusedWithAnExample(t *testing.T) {
	checkProblems(t, []problem{
		{"text for a number", "[session.a]\nhost = \"x\"\njob = \"y\"\nlocal = \"8888\"\n", `
config.toml:4:9: "local" in [session.a] must be a number, not text
  4 | local = "8888"
    |         ^^^^^^
  write: local = 8888
`},
		{"a number for text", "ssh_config = 5\n", `
config.toml:1:14: "ssh_config" must be text in quotes, not a number
  1 | ssh_config = 5
    |              ^
  write: ssh_config = "~/.ssh/config"
`},
		{"text for true", "[session.a]\nhost = \"x\"\njob = \"y\"\nkeep = \"yes\"\n", `
config.toml:4:8: "keep" in [session.a] must be true or false, not text
  4 | keep = "yes"
    |        ^^^^^
  write: keep = true
`},
		{"text for a list", "[session.a]\nhost = \"x\"\nsubmit = \"y\"\nargs = \"--time=1\"\n", `
config.toml:4:8: "args" in [session.a] must be a list, not text
  4 | args = "--time=1"
    |        ^^^^^^^^^^
  write: args = ["--time=2:00:00"]
`},
		{"numbers in a list of texts", "[session.a]\nhost = \"x\"\nsubmit = \"y\"\nargs = [\n  \"-n\", 4,\n  [1],\n]\n", `
config.toml:4:8: "args" in [session.a] must be a list of texts in quotes, not a list
  4 | args = [
    |        ^
  write: args = ["--time=2:00:00"]
config.toml:5:9: "args" in [session.a] must be a list of texts in quotes, not a number
  5 |   "-n", 4,
    |         ^
  write: args = ["--time=2:00:00"]
`},
		{"true for a word", "[host.a]\nscheduler = false\ntransport = 1.5\n", `
config.toml:2:13: "scheduler" in [host.a] must be one of "slurm", "pbs", "gridengine" or "none", not true or false
  2 | scheduler = false
    |             ^^^^^
  write: scheduler = "slurm"
config.toml:3:13: "transport" in [host.a] must be one of "native" or "openssh", not a number with a decimal point
  3 | transport = 1.5
    |             ^^^
  write: transport = "native"
`},
		{"a date, a list and a table for text", "[host.a]\nssh = 2020-01-01\nsite = ['x']\nbefore_login = {}\n", `
config.toml:2:7: "ssh" in [host.a] must be text in quotes, not a date or time
  2 | ssh = 2020-01-01
    |       ^^^^^^^^^^
  write: ssh = "alice@login.example.org"
config.toml:3:8: "site" in [host.a] must be text in quotes, not a list
  3 | site = ['x']
    |        ^^^^^
  write: site = "narval"
config.toml:4:16: "before_login" in [host.a] must be text in quotes, not a section
  4 | before_login = {}
    |                ^^
  write: before_login = "step ssh login"
`},
		{"empty text", "[host.a]\nssh = \"\"\n", `
config.toml:2:7: "ssh" in [host.a] is empty
  2 | ssh = ""
    |       ^^
  write: ssh = "alice@login.example.org"
`},
		{"text of several lines", "[host.a]\nbefore_login = \"a\\nb\"\n", `
config.toml:2:16: "before_login" in [host.a] must be one line without control characters
  2 | before_login = "a\nb"
    |                ^^^^^^
`},
		{"a kind of notification", "notify = [\"redy\"]\n", `
config.toml:1:11: "redy" is not one of "ready", "needs-login", "time-limit", "idle", "ended" or "link"
  1 | notify = ["redy"]
    |           ^^^^^^
  did you mean "ready"?
`},
		{"an idle time", "[session.a]\nhost = \"x\"\njob = \"j\"\nidle = \"half an hour\"\n", `
config.toml:4:8: "half an hour" is not a time such as "30s" or "2m"
  4 | idle = "half an hour"
    |        ^^^^^^^^^^^^^^
  write: idle = "30m"
`},
		{"an idle time that is too short", "[session.a]\nhost = \"x\"\njob = \"j\"\nidle = \"30s\"\n", `
config.toml:4:8: "30s" is too short: the least is 5 min
  4 | idle = "30s"
    |        ^^^^^
  write: idle = "30m"
`},
		{"an idle time without a job", "[session.a]\nhost = \"x\"\nforward = [\"80:db:80\"]\nidle = \"30m\"\n", `
config.toml:4:1: [session.a] has no job that could be idle
  4 | idle = "30m"
    | ^^^^
  remove it, or add: job = "NAME"
`},
	})
}

func TestBadNamesAreRefused(t *testing.T) {
	for _, name := range []string{`""`, `"-a"`, `".."`, `"a b"`, `"a/b"`, `"é"`, `"a\nb"`, `-a`} {
		checkProblems(t, []problem{{name, "[host." + name + "]\n", `
config.toml:1:7: ` + nameIn(name) + ` is not a valid host name
  1 | [host.` + name + `]
    |       ` + carets(name) + `
  use letters, digits, '.', '_' and '-', and begin with a letter or digit
`}})
	}
	parse(t, "[host.a-b_c]\n[host.\"1.2.3.4\"]\n[host._x]\n")
}

// nameIn is a name as messages quote it.
func nameIn(written string) string {
	if written[0] != '"' {
		return `"` + written + `"`
	}
	return written
}

func carets(text string) string {
	under := ""
	for range text {
		under += "^"
	}
	return under
}

func TestBadHostsAreRefused(t *testing.T) {
	checkProblems(t, []problem{
		{"values that are not in the set", "[host.a]\nscheduler = \"slrum\"\ntransport = \"ssh\"\n", `
config.toml:2:13: "slrum" is not one of "slurm", "pbs", "gridengine" or "none"
  2 | scheduler = "slrum"
    |             ^^^^^^^
  did you mean "slurm"?
config.toml:3:13: "ssh" is not one of "native" or "openssh"
  3 | transport = "ssh"
    |             ^^^^^
`},
		{"an option for a host", "[host.a]\nssh = \"-oProxyCommand=reboot\"\n", `
config.toml:2:7: "-oProxyCommand=reboot" is not a valid ssh host
  2 | ssh = "-oProxyCommand=reboot"
    |       ^^^^^^^^^^^^^^^^^^^^^^^
  write: ssh = "alice@login.example.org"
`},
	})
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
