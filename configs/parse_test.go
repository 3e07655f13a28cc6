package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// problems parses a config that must be refused, and returns the whole text.
func problems(t *testing.T, text string) string {
	t.Helper()
	c, err := Parse("config.toml", []byte(text))
	if err == nil {
		t.Fatalf("no problem was found in\n%s", text)
	}
	if c != nil {
		t.Error("a config with problems was returned")
	}
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Errorf("the error is a %T", err)
	}
	return err.Error()
}

type problem struct{ name, config, want string }

func checkProblems(t *testing.T, table []problem) {
	t.Helper()
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimPrefix(tt.want, "\n")
			if got := problems(t, tt.config) + "\n"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSyntaxErrorsAreExplained(t *testing.T) {
	checkProblems(t, []problem{
		{"text without quotes", "[host.narval]\nssh = narval.example.org # mine\n", `
config.toml:2:7: "narval.example.org" is neither quoted text, a number, true nor false
  2 | ssh = narval.example.org # mine
    |       ^^^^^^^^^^^^^^^^^^
  text needs quotes: "narval.example.org"
`},
		{"text that begins with a digit", "[session.a]\nhost = 2node\n", `
config.toml:2:8: "2node" is neither quoted text, a number, true nor false
  2 | host = 2node
    |        ^^^^^
  text needs quotes: "2node"
`},
		{"a quote that is not closed", "ssh_config = \"~/.ssh/config\nnotify = true\n", `
config.toml:1:28: the text has no closing quote
  1 | ssh_config = "~/.ssh/config
    |                            ^
  add the closing quote on the same line
`},
		{"typographic quotes", "ssh_config = “x”", `
config.toml:1:14: '“' is not a straight quote
  1 | ssh_config = “x”
    |              ^^^
  write "…" or '…'
`},
		{"a capital True", "notify = True", `
config.toml:1:10: true and false must be lowercase
  1 | notify = True
    |          ^^^^
  write true
`},
		{"a value that is missing", "notify =   # later\n", `
config.toml:1:12: the value is missing
  1 | notify =   # later
    |            ^
`},
		{"a value that is missing at the end", "notify =", `
config.toml:1:9: the value is missing
  1 | notify =
    |         ^
`},
		{"a colon for an equals sign", "notify: true", `
config.toml:1:7: expected = after the key
  1 | notify: true
    |       ^
  write: key = "value"
`},
		{"a backslash in double quotes", "[app.x]\npatterns = [\"(?P<port>\\d+)\"]", `
config.toml:2:23: \d is not a valid escape sequence
  2 | patterns = ["(?P<port>\d+)"]
    |                       ^^
  use single quotes to keep backslashes: '\d+'
`},
		{"a header that is not closed", "[session.a\nhost = \"x\"\nhots = \"y\"\n[host.b]\n", `
config.toml:1:11: the section has no closing bracket
  1 | [session.a
    |           ^
  add ] after the name
`},
		{"a space in a section's name", "[session.my notebook]\nhost = \"x\"\n", `
config.toml:1:13: unexpected "notebook" in the name of a section
  1 | [session.my notebook]
    |             ^
  use letters, digits, - and _ in a name, and no spaces
`},
		{"a section without its name", "# mine\n[session.]\nhost = \"x\"\n", `
config.toml:2:10: a name is missing in the section
  2 | [session.]
    |          ^
  the sections are [host.NAME], [session.NAME] and [app.NAME]
`},
		{"a section's name that begins with another sign", "[session.+1]\nhost = \"x\"\n", `
config.toml:1:10: unexpected "+1" in the name of a section
  1 | [session.+1]
    |          ^
  use letters, digits, - and _ in a name, and no spaces
`},
		{"a list that is not closed", "[session.a]\nargs = [\"x\"\nlocal = 0\n", `
config.toml:3:1: expected ',' or ']' after array value
  3 | local = 0
    | ^
  this value begins on line 2
config.toml:3:9: "local" must be a number from 1 to 65535, not 0
  3 | local = 0
    |         ^
  write: local = 8888
`},
		{"a list that is open to the end", "# comment\n\nnotify = [\n  \"ready\",\n", `
config.toml:3:1: the bracket or quote opened here is never closed
  3 | notify = [
    | ^^^^^^^^^^
`},
		{"a long text that is open to the end", "notify = true # on\nssh_config = '''x\ny\n", `
config.toml:2:1: the bracket or quote opened here is never closed
  2 | ssh_config = '''x
    | ^^^^^^^^^^^^^^^^^
`},
		{"two on one line", `notify = true ssh_config = "x"`, `
config.toml:1:15: unexpected 's': only a comment may follow on this line
  1 | notify = true ssh_config = "x"
    |               ^
`},
		{"a list of tables", "[[host]]\nname = 3\n", `
config.toml:1:3: [[host]] is not valid: the config has no lists of sections
  1 | [[host]]
    |   ^^^^
  write [host] with single brackets
`},
		{"a key twice", "[host.a]\nssh = \"x\"\n\nssh = \"y\"\n", `
config.toml:4:1: duplicate key "ssh", first on line 2
  4 | ssh = "y"
    | ^^^
`},
		{"a table twice", "[host.a]\n[host.b]\n[host.\"a\"]\nhots = 1\n", `
config.toml:3:2: duplicate section [host.a], first on line 1
  3 | [host."a"]
    |  ^^^^^^^^
`},
		{"a table over a value", "host = { a = { ssh = \"x\" } }\n[host.a]\n", `
config.toml:2:2: duplicate key "host", first on line 1
  2 | [host.a]
    |  ^^^^
`},
		{"a dotted key into a table", "[host.a]\n[host]\na.ssh = \"x\"\n", `
config.toml:3:1: duplicate key "a", first on line 1
  3 | a.ssh = "x"
    | ^
`},
		{"a control character in a comment", "notify = true\n# \x1b[31m\n[host.a]\nshs = \"x\"\n", `
config.toml:2:3: control characters are not allowed in comments
  2 | # �[31m
    |   ^
config.toml:4:1: unknown key "shs" in [host.a]
  4 | shs = "x"
    | ^^^
  did you mean "ssh"?
`},
		{"several, all told in order", "notify = yes\n[host.a]\nssh: \"x\"\nsite = \"y\nscheduler = \"slrum\"\n", `
config.toml:1:10: "yes" is neither quoted text, a number, true nor false
  1 | notify = yes
    |          ^^^
  text needs quotes: "yes"
config.toml:3:4: expected = after the key
  3 | ssh: "x"
    |    ^
  write: key = "value"
config.toml:4:10: the text has no closing quote
  4 | site = "y
    |          ^
  add the closing quote on the same line
config.toml:5:13: "slrum" is not one of "slurm", "pbs", "gridengine" or "none"
  5 | scheduler = "slrum"
    |             ^^^^^^^
  did you mean "slurm"?
`},
	})
}

func TestOddFilesAreAnswered(t *testing.T) {
	checkProblems(t, []problem{
		{"CRLF line ends", "notify = true\r\n[session.a]\r\nlocall = 1\r\n", `
config.toml:2:2: [session.a] has no host
  2 | [session.a]
    |  ^^^^^^^^^
  add: host = "narval"
config.toml:2:2: [session.a] needs a job, submit or forward
  2 | [session.a]
    |  ^^^^^^^^^
  add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward
config.toml:3:1: unknown key "locall" in [session.a]
  3 | locall = 1
    | ^^^^^^
  did you mean "local"?
`},
		{"a byte order mark", "\uFEFFnotfy = true\n", `
config.toml:1:1: unknown key "notfy"
  1 | notfy = true
    | ^^^^^
  did you mean "notify"?
`},
		{"UTF-16", "\xFF\xFEn\x00o\x00", `
config.toml: the file is written in UTF-16
  save it as UTF-8
`},
		{"Latin-1", "# na\xefve\nx = 1\n", `
config.toml:1:5: the byte 0xef is not valid UTF-8
  1 | # na�ve
    |     ^
  save the file as UTF-8
`},
		{"zero bytes", "notify = true\n\x00\x00", `
config.toml:2:1: the file contains a zero byte, so it is not a text file
  2 | ��
    | ^
  is this the right file?
`},
		{"far too large", strings.Repeat("# padding\n", 500_000), `
config.toml: the file is larger than 1 MB
  is this the right file?
`},
		{"tabs and letters beyond ASCII", "ssh_config\t= \"é\"\n\t\"ü\"\t= 1\n", `
config.toml:2:2: unknown key "ü"
  2 | 	"ü"	= 1
    | 	^^^
  available: notify, ssh_config, host, session, app, mcp
`},
		{"characters that turn the text around", "notify = 1 # \u200b\u202e", `
config.toml:1:10: "notify" must be true, false or a list, not a number
  1 | notify = 1 # ��
    |          ^
  write: notify = true, or notify = ["ready", "needs-login"]
`},
		{"a very long line", "notify = [" + strings.Repeat(`"ready", `, 1000) + `"x", ` + strings.Repeat(`"ready", `, 1000) + "]", `
config.toml:1:9011: "x" is not one of "ready", "needs-login", "time-limit", "idle", "ended" or "link"
  1 | …ady", "ready", "ready", "ready", "ready", "ready", "ready", "x", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "read…
    |                                                              ^^^
`},
	})
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"lists":          "x = " + strings.Repeat("[", 100_000),
		"closed lists":   "x = " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"inline tables":  "x = " + strings.Repeat("{x=", 9_000) + "1" + strings.Repeat("}", 9_000),
		"dotted key":     strings.Repeat("a.", 100_000) + "a = 1",
		"dotted header":  "[session." + strings.Repeat("a.", 100_000) + "a]",
		"many headers":   strings.Repeat("[a]\n", 50_000),
		"many bad lines": strings.Repeat("=\n", 100_000),
		"many ports":     "[session.a]\nhost = 'x'\nforward = [" + strings.Repeat(`"1:a:1",`, 30_000) + "]",
		"open brackets":  strings.Repeat("a=[\n", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, text)
			if len(got) > 50_000 {
				t.Errorf("%d bytes of problems", len(got))
			}
		})
	}
}

func TestAnErrorTellsItsPlace(t *testing.T) {
	_, err := Parse("my.toml", []byte("\n  notfy = true\n"))
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%T holds no *Error", err)
	}
	if got := fmt.Sprintf("%s %d %d %q %q %q", e.File, e.Line, e.Column, e.Source, e.Message, e.Hint); got !=
		`my.toml 2 3 "  notfy = true" "unknown key \"notfy\"" "did you mean \"notify\"?"` {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", example, "\uFEFFnotify = true\r\n", "notify = [\"ready\"]", "[session.a]\nhost = \"x\"\nforward = \"ssh_config\"\n",
		"[host.a]\nssh = \"\\S\"\n[host", "a = [[[{b = 1}]]]", "a.b.c = '''\n", "[session.\"\"]\nlocal = 0x1F\n", "[[host]]\n", "=\n=\n",
		"[session.a]\nlog = \"{id}{\"\nforward = [\"[::1]:1:[::1]:2\", \"/a:/b\", \"D:1\", 3]\n", "[app.x]\npatterns = ['(?P<a>', '(?P<port>1)']",
		"host = 1\nsession = []\napp = 2020-01-01\n", "\xff\xfe", "\x00", "x = \"", "x = {", "x = \"\\", "[a]\n[a.b]\n[a]\na.b.c = 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("config.toml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse gave %v and %v", c, err)
		}
		if err == nil {
			return
		}
		errs, ok := err.(interface{ Unwrap() []error }) // the outermost one has them all
		if !ok || len(errs.Unwrap()) == 0 {
			t.Fatalf("the error is a %T", err)
		}
		for _, err := range errs.Unwrap() {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Message == "" || e.Line < 0 || (e.Line > 0 && e.Column < 1) || strings.Contains(e.Source, "\n") {
				t.Errorf("bad error %+v", e)
			}
		}
	})
}
