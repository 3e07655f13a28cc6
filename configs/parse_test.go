package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// refused parses a config that must be refused, and returns its problems.
func refused(t *testing.T, text string) error {
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
	return err
}

// brief are the problems that an error has, each as its place, the underlined part and the message, and after an
// arrow its hint.
func brief(err error) []string {
	var list []string
	errs, _ := err.(interface{ Unwrap() []error })
	for _, err := range errs.Unwrap() {
		e, _ := errors.AsType[*Error](err)
		text := e.Message
		if e.Line > 0 {
			carets := strings.TrimLeft(e.under, " \t")
			line := []rune(e.Source)[len([]rune(e.under))-len(carets):]
			text = fmt.Sprintf("%d:%d [%s] %s", e.Line, e.Column, string(line[:min(len(line), len(carets))]), e.Message)
		}
		list = append(list, text)
		if e.Hint != "" {
			list = append(list, "→ "+e.Hint)
		}
	}
	return list
}

// checker returns what checks that a config has these problems, as brief writes them.
func checker(t *testing.T) func(name, config string, want ...string) {
	return func(name, config string, want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			if got := brief(refused(t, config)); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct{ name, config, want string }{
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
		{"tabs and letters beyond ASCII", "ssh_config\t= \"é\"\n\t\"ü\"\t= 1\n", `
config.toml:2:2: unknown key "ü"
  2 | 	"ü"	= 1
    | 	^^^
  available: notify, ssh_config, host, session, app, mcp
`},
		{"a very long line", "notify = [" + strings.Repeat(`"ready", `, 1000) + `"x", ` + strings.Repeat(`"ready", `, 1000) + "]", `
config.toml:1:9011: "x" is not one of "ready", "needs-login", "time-limit", "idle", "ended" or "link"
  1 | …ady", "ready", "ready", "ready", "ready", "ready", "ready", "x", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "read…
    |                                                              ^^^
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimPrefix(tt.want, "\n")
			if got := refused(t, tt.config).Error() + "\n"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSyntaxErrors(t *testing.T) {
	check := checker(t)
	check("text without quotes", "[host.narval]\nssh = narval.example.org # mine\n",
		`2:7 [narval.example.org] "narval.example.org" is neither quoted text, a number, true nor false`,
		`→ text needs quotes: "narval.example.org"`)
	check("text that begins with a digit", "[session.a]\nhost = 2node\n",
		`2:8 [2node] "2node" is neither quoted text, a number, true nor false`, `→ text needs quotes: "2node"`)
	check("a quote that is not closed", "ssh_config = \"~/.ssh/config\nnotify = true\n",
		`1:28 [] the text has no closing quote`, `→ add the closing quote on the same line`)
	check("typographic quotes", "ssh_config = “x”",
		`1:14 [“x”] '“' is not a straight quote`, `→ write "…" or '…'`)
	check("a capital True", "notify = True",
		`1:10 [True] true and false must be lowercase`, `→ write true`)
	check("a value that is missing", "notify =   # later\n",
		`1:12 [#] the value is missing`)
	check("a value that is missing at the end", "notify =",
		`1:9 [] the value is missing`)
	check("a colon for an equals sign", "notify: true",
		`1:7 [:] expected = after the key`, `→ write: key = "value"`)
	check("a backslash in double quotes", "[app.x]\npatterns = [\"(?P<port>\\d+)\"]",
		`2:23 [\d] \d is not a valid escape sequence`, `→ use single quotes to keep backslashes: '\d+'`)
	check("a header that is not closed", "[session.a\nhost = \"x\"\nhots = \"y\"\n[host.b]\n",
		`1:11 [] the section has no closing bracket`, `→ add ] after the name`)
	check("a space in a section's name", "[session.my notebook]\nhost = \"x\"\n",
		`1:13 [n] unexpected "notebook" in the name of a section`, `→ use letters, digits, - and _ in a name, and no spaces`)
	check("a section without its name", "# mine\n[session.]\nhost = \"x\"\n",
		`2:10 []] a name is missing in the section`, `→ the sections are [host.NAME], [session.NAME] and [app.NAME]`)
	check("a section's name that begins with another sign", "[session.+1]\nhost = \"x\"\n",
		`1:10 [+] unexpected "+1" in the name of a section`, `→ use letters, digits, - and _ in a name, and no spaces`)
	check("a list that is not closed", "[session.a]\nargs = [\"x\"\nlocal = 0\n",
		`3:1 [l] expected ',' or ']' after array value`, `→ this value begins on line 2`,
		`3:9 [0] "local" must be a number from 1 to 65535, not 0`, `→ write: local = 8888`)
	check("a list that is open to the end", "# comment\n\nnotify = [\n  \"ready\",\n",
		`3:1 [notify = [] the bracket or quote opened here is never closed`)
	check("a long text that is open to the end", "notify = true # on\nssh_config = '''x\ny\n",
		`2:1 [ssh_config = '''x] the bracket or quote opened here is never closed`)
	check("two on one line", `notify = true ssh_config = "x"`,
		`1:15 [s] unexpected 's': only a comment may follow on this line`)
	check("a list of tables", "[[host]]\nname = 3\n",
		`1:3 [host] [[host]] is not valid: the config has no lists of sections`, `→ write [host] with single brackets`)
	check("a key twice", "[host.a]\nssh = \"x\"\n\nssh = \"y\"\n",
		`4:1 [ssh] duplicate key "ssh", first on line 2`)
	check("a table twice", "[host.a]\n[host.b]\n[host.\"a\"]\nhots = 1\n",
		`3:2 [host."a"] duplicate section [host.a], first on line 1`)
	check("a table over a value", "host = { a = { ssh = \"x\" } }\n[host.a]\n",
		`2:2 [host] duplicate key "host", first on line 1`)
	check("a dotted key into a table", "[host.a]\n[host]\na.ssh = \"x\"\n",
		`3:1 [a] duplicate key "a", first on line 1`)
	check("a control character in a comment", "notify = true\n# \x1b[31m\n[host.a]\nshs = \"x\"\n",
		`2:3 [�] control characters are not allowed in comments`,
		`4:1 [shs] unknown key "shs" in [host.a]`, `→ did you mean "ssh"?`)
}

func TestOddFiles(t *testing.T) {
	check := checker(t)
	check("CRLF line ends", "notify = true\r\n[session.a]\r\nlocall = 1\r\n",
		`2:2 [session.a] [session.a] has no host`, `→ add: host = "narval"`,
		`2:2 [session.a] [session.a] needs a job, submit or forward`,
		`→ add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward`,
		`3:1 [locall] unknown key "locall" in [session.a]`, `→ did you mean "local"?`)
	check("a byte order mark", "\uFEFFnotfy = true\n",
		`1:1 [notfy] unknown key "notfy"`, `→ did you mean "notify"?`)
	check("UTF-16", "\xFF\xFEn\x00o\x00",
		`the file is written in UTF-16`, `→ save it as UTF-8`)
	check("Latin-1", "# na\xefve\nx = 1\n",
		`1:5 [�] the byte 0xef is not valid UTF-8`, `→ save the file as UTF-8`)
	check("zero bytes", "notify = true\n\x00\x00",
		`2:1 [�] the file contains a zero byte, so it is not a text file`, `→ is this the right file?`)
	check("far too large", strings.Repeat("# padding\n", 500_000), "the file is larger than 1 MB", "→ is this the right file?")
	check("characters that turn the text around", "notify = 1 # \u200b\u202e",
		`1:10 [1] "notify" must be true, false or a list, not a number`,
		`→ write: notify = true, or notify = ["ready", "needs-login"]`)
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
			got := refused(t, text).Error()
			if len(got) > 50_000 {
				t.Errorf("%d bytes of problems", len(got))
			}
		})
	}
}

// TestErrorFields: an error tells its place.
func TestErrorFields(t *testing.T) {
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
