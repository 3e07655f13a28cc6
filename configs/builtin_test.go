package configs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// builtinJob is a builtin job on a plain Slurm cluster.
func builtinJob(t *testing.T, app string) *Job {
	t.Helper()
	j := siteJob(t, "slurm", map[string]string{})
	j.App, j.Name = app, app
	return j
}

// showsSecrets prints, from a program that stands for a server, what others could see of it.
const showsSecrets = `
password=$(cat "$private/password")
case "$* $(env)" in *"$password"*) echo "the password is on the command line or in the environment" ;; esac
[ -z "$(find "$private" ! -type d -perm /077)" ] || echo "a file that others may read"
`

func TestCodeServerGetsItsPasswordFromAPrivateFile(t *testing.T) {
	out := scripted(t, builtinJob(t, "code-server"), map[string]string{
		"code-server": showsSecrets + `echo "called with $*"; cat "$2"; echo "PASSWORD is '$PASSWORD'"; cat "$private/server.json"`,
	}, "PASSWORD=of-another-server")
	wantAll(t, out, "tunctl: code-server will be at http://localhost:", "(password in HOME/.tunctl/job.", "auth: password", "cert: false", "PASSWORD is ''",
		"called with --config HOME/.tunctl/job.")
	wantNone(t, out, "the password is on", "a file that others may read")
	inConfig := regexp.MustCompile(`(?m)^password: (\w{48})$`).FindStringSubmatch(out)
	if inConfig == nil || !strings.Contains(out, `"token": "`+inConfig[1]+`"}`) {
		t.Errorf("the file for tunctl has another password:\n%s", out)
	}
	if port := regexp.MustCompile(`bind-addr: \S+:(\d+)`).FindStringSubmatch(out); port == nil || !strings.Contains(out, `"port": `+port[1]+",") || !strings.Contains(out, ":"+port[1]+"/ (password") {
		t.Errorf("the ports differ:\n%s", out)
	}
}

func TestRStudioAcceptsThePersonWithThePasswordOnly(t *testing.T) {
	out := scripted(t, builtinJob(t, "rstudio"), map[string]string{
		"R": ":",
		"rserver": `case $1 in --help) echo "--server-user --server-data-dir --secure-cookie-key-file --rsession-which-r"; exit ;; esac
` + showsSecrets + `
echo "called with $*"
for word; do case $word in --auth-pam-helper-path=*) helper=${word#*=} ;; --server-data-dir=*) data=${word#*=} ;; esac; done
echo "data: $(ls -ld "$data" | cut -c1-10) $(cat "$data/database.conf" | head -n 1)"
ask() { if printf '%s\n' "$2" | "$helper" "$1"; then echo "$3: in"; else echo "$3: out"; fi; }
ask "$(id -un)" "$(cat "$private/password")" right
ask "$(id -un)" wrong "wrong password"
ask "$(id -un)" "" "no password"
ask somebody "$(cat "$private/password")" "wrong name"`,
	})
	wantAll(t, out, "tunctl: rstudio will be at http://localhost:", "right: in", "wrong password: out", "no password: out", "wrong name: out",
		"--auth-none=0", "--server-daemonize=0", "--server-data-dir=", "--rsession-which-r=HOME/bin/R", "data: drwx------ provider=sqlite")
	wantNone(t, out, "the password is on", "a file that others may read", "--database-config-file") // which this version does not know
	data := regexp.MustCompile(`--server-data-dir=(\S+)`).FindStringSubmatch(out)
	if data == nil {
		t.Fatal("no folder for data")
	}
	if _, err := os.Stat(data[1]); err == nil {
		t.Errorf("the folder %s is left", data[1])
	}
}

// desktopPrograms stand for those that a desktop needs.
func desktopPrograms() map[string]string {
	return map[string]string{
		"Xtigervnc":        showsSecrets + `[ "$1" != -version ] || exit 0; echo "X: $*" >&2; echo 9 >&7; exec sleep 100`,
		"tigervncpasswd":   `cat`,
		"websockify":       showsSecrets + `echo "proxy: $*" >~/proxied; exec sleep 100`,
		"desk":             `echo "on $DISPLAY with $(head -c 26 "$XAUTHORITY" | tail -c 18) and bus '$DBUS_SESSION_BUS_ADDRESS'" >>~/drawn`,
		"dbus-run-session": `shift; exec "$@"`,
	}
}

func TestADesktopEndsWhenItsSessionEnds(t *testing.T) {
	novnc := t.TempDir()
	if err := os.WriteFile(filepath.Join(novnc, "vnc.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := builtinJob(t, "desktop")
	j.Answers = map[string]string{"desktop": "desk", "novnc": novnc}
	programs := desktopPrograms()
	programs["desk"] += "\ncat ~/proxied ~/drawn \"$private/desktop.log\" >~/said"
	j.Prepare = "mkfifo ~/proxied\ntrap 'cat ~/said; rm -rf \"$private\"' EXIT"
	out := scripted(t, j, programs, "DBUS_SESSION_BUS_ADDRESS=of-the-login-node")
	wantAll(t, out, "tunctl: novnc will be at http://localhost:", "/vnc.html (password in HOME/.tunctl/job.", "tunctl: the desktop has ended",
		"on :9 with MIT-MAGIC-COOKIE-1 and bus ''", "-localhost", "-SecurityTypes VncAuth", "127.0.0.1:5909", "--web "+novnc)
	wantNone(t, out, "the password is on", "a file that others may read")
}

func TestABuiltinJobSaysWhatIsMissing(t *testing.T) {
	none := func(names ...string) map[string]string {
		programs := desktopPrograms()
		for _, name := range names {
			delete(programs, name)
		}
		return programs
	}
	for _, c := range []struct {
		app      string
		programs map[string]string
		answers  map[string]string
		want     string
	}{
		{"code-server", nil, nil, "tunctl: code-server is not installed here\n"},
		{"rstudio", nil, nil, "tunctl: RStudio is not installed here: there is no program rserver\n"},
		{"tensorboard", map[string]string{"python3": "exit 1"}, nil, "tunctl: TensorBoard is not installed here\n"},
		{"desktop", none("Xtigervnc"), nil, "tunctl: a VNC server (TigerVNC or TurboVNC) is not installed here\n"},
		{"desktop", none("websockify"), nil, "tunctl: websockify is not installed here\n"},
		{"desktop", none(), nil, "tunctl: noVNC is not installed here\n"},
		{"desktop", none(), map[string]string{"novnc": "NOVNC", "desktop": "startfvwm"}, "tunctl: the desktop startfvwm is not installed here\n"},
	} {
		t.Run(c.app, func(t *testing.T) {
			if _, err := os.Stat("/usr/share/novnc"); err == nil && strings.Contains(c.want, "noVNC") {
				t.Skip("noVNC is installed here")
			}
			novnc := t.TempDir()
			if err := os.WriteFile(filepath.Join(novnc, "vnc.html"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			j := builtinJob(t, c.app)
			for name, answer := range c.answers {
				j.Answers[name] = strings.ReplaceAll(answer, "NOVNC", novnc)
			}
			out := scripted(t, j, withSystem(c.programs), onlyBin)
			wantAll(t, out, c.want, "tunctl: set modules")
		})
	}
}

// onlyBin has a script see the programs beside it only.
const onlyBin = "PATH=bin"

// withSystem adds the programs of the system that every job uses.
func withSystem(programs map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range []string{"bash", "sh", "cat", "head", "od", "tr", "base64", "mkdir", "rm", "chmod", "hostname", "id", "find", "getent", "mktemp"} {
		if path, err := exec.LookPath(name); err == nil { // macOS has no getent
			all[name] = `exec ` + path + ` "$@"`
		}
	}
	for name, body := range programs {
		all[name] = body
	}
	return all
}

func TestACommandGetsItsPortAndListensOnLoopback(t *testing.T) {
	for _, c := range []struct{ command, want, page string }{
		{`serve --port={port} --host {host}`, "served: --port=PORT --host 127.0.0.1", "/"},
		{`serve 'port = {port}' "${HOME}" {base}x`, "served: port = PORT HOME /command/x", "/command/"},
		{"X=1\nserve \"$X\" {port}", "served: 1 PORT", "/"},
		{`serve '{ print }' {port}`, "served: { print } PORT", "/"},
		{"source ~/env.sh\nports=({port})\n[[ $X == 2 ]] && serve \"${ports[@]}\"", "served: PORT", "/"},
	} {
		j := builtinJob(t, CommandJob)
		j.Command = c.command
		j.Prepare = `echo "X=2" >~/env.sh`
		out := scripted(t, j, map[string]string{"serve": `echo "served: $*"`})
		m := regexp.MustCompile(`(?m)^tunctl: command will be at http://127\.0\.0\.1:(\d+)(\S*)$`).FindStringSubmatch(out)
		if m == nil || m[2] != c.page || !strings.Contains(out, strings.ReplaceAll(c.want, "PORT", m[1])) {
			t.Errorf("%s: got\n%s", c.command, out)
		}
	}
}

func TestACommandInAContainerWithoutBashIsRunBySh(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Answers = map[string]string{"container": "/images/x.sif"}
	j.Command = `serve "$0" {port}`
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	out := scripted(t, j, map[string]string{
		"apptainer": `while [ "$1" != sh ]; do shift; done; shift
mkdir "$HOME/image" && ln -s ` + sh + ` "$(command -v serve)" "$HOME/image/" && PATH=$HOME/image exec sh "$@"`,
		"serve": `echo "served: $*"`,
	})
	wantAll(t, out, "served: sh ")
}

func TestPrepareRunsBeforeEveryServer(t *testing.T) {
	shows := map[string]string{
		"jupyter": `case $* in *--version*) echo 4.0.0; exit ;; esac; echo "served with $MINE, umask $(umask)"`,
		"show":    `echo "served with $MINE, umask $(umask)"`,
		"sleep":   `echo "served with $MINE, umask $(umask)"`,
	}
	for _, app := range []string{"jupyter", CommandJob, ShellApp} {
		j := builtinJob(t, app)
		j.Command = "show {port}"
		j.Prepare = "MINE=\"it's mine\"\nEND=1 # a word that ends nothing\nEND\nexport MINE\n"
		out := scripted(t, j, shows)
		wantAll(t, out, "served with it's mine, umask 0027")
	}
}

func TestPrepareMayBeAScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env.sh")
	if err := os.WriteFile(file, []byte("export MINE=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := builtinJob(t, CommandJob)
	j.Command, j.Prepare = "show {port}", file
	wantAll(t, scripted(t, j, map[string]string{"show": `echo "served with $MINE"`}), "served with 1")
	j.Prepare = "~/none.sh"
	wantAll(t, scripted(t, j, nil), "tunctl: there is no script HOME/none.sh: set prepare in the session")
}

func TestNothingIsServedWhenPrepareFails(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Command, j.Prepare = "show {port}", "cd /no/such/folder 2>/dev/null"
	out := scripted(t, j, map[string]string{"show": "echo served"})
	wantAll(t, out, "tunctl: prepare ended with status 1, so nothing was started")
	wantNone(t, out, "served", "will be at")
}

func TestPrepareRunsInTheContainer(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Answers = map[string]string{"container": "/images/x.sif"}
	j.Command, j.Prepare = "show {port}", "echo \"prepared in ${inside:-the job}\""
	out := scripted(t, j, map[string]string{
		"apptainer": `while [ "$1" != sh ]; do shift; done; inside="the container" exec "$@"`,
		"show":      "echo served",
	})
	wantAll(t, out, "prepared in the container", "served")
}

// containerPart is what a job may run in a container, where sh is any shell.
var containerPart = regexp.MustCompile(`(?s)\nserve=\$\(cat <<'END'\n(.*?)\nEND\n\)`)

func TestThePartThatMayRunInAContainerIsForAnyShell(t *testing.T) {
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Skip("no dash")
	}
	for _, app := range BuiltinJobs() {
		text, err := answered(builtinJob(t, app).Site, app).Script()
		if err != nil {
			t.Fatal(err)
		}
		m := containerPart.FindSubmatch(text)
		if m == nil && app != ShellApp && app != CommandJob {
			t.Errorf("%s has no such part", app)
		}
		if m == nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), dash, "-n")
		cmd.Stdin = strings.NewReader(string(m[1]))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", app, err, out)
		}
	}
}

func wantNone(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q is in:\n%s", part, text)
		}
	}
}

func TestTheKeysOfABuiltinJobAreChecked(t *testing.T) {
	session := func(lines string) string { return "[session.s]\nhost = \"h\"\n" + lines + "\n" }
	for lines, want := range map[string]string{
		`submit = "builtin:command"`:                                                                    `has no command to run`,
		"submit = \"builtin:command\"\ncommand = \"vllm serve m\"":                                      `has no {port}`,
		"submit = \"builtin:command\"\ncommand = \"x {prot}\"":                                          `unknown placeholder {prot}`,
		"submit = \"builtin:command\"\ncommand = \"x {port} {folder}\"":                                 `unknown placeholder {folder}`,
		"submit = \"builtin:command\"\ncommand = \"\"":                                                  `"command" in [session.s] is empty`,
		"submit = \"builtin:command\"\ncommand = \"x\\u0007 {port}\"":                                   `without control characters`,
		"submit = \"builtin:jupyter\"\ncommand = \"x {port}\"":                                          `"command" works only with submit = "builtin:command"`,
		"submit = \"~/x.sh\"\nprepare = \"module load R\"":                                              `"prepare" works only with a builtin job`,
		"submit = \"builtin:command\"\ncommand = \"x {port}\"\nreach = \"login\"":                       `has no password, so it listens on the compute node itself only`,
		"submit = \"builtin:tensorboard\"\nreach = \"here\"":                                            `has no password, so it listens on the compute node itself only`,
		"submit = \"builtin:desktop\"\nreach = \"login\"\nprepare = \"\"\"\nmodule load vnc\nx\n\"\"\"": "",
		"submit = \"builtin:command\"\ncommand = '''awk '{ print }' ${HOME} {port} {base}'''":           "",
		"submit = \"builtin:desktop\"\napp = \"desktop\"":                                               "",
	} {
		_, err := Parse("config.toml", []byte(session(lines)))
		switch {
		case want == "" && err != nil, want != "" && err == nil:
			t.Errorf("%s\ngot %v, want %q", lines, err, want)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s\ngot %v, want %q", lines, err, want)
		}
	}
}
