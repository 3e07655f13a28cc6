//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/cmdline"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/freeport"
	"tunctl/internal/home"
	"tunctl/internal/lab"
)

// reader is a person with the documentation, a shell and an account.
type reader struct {
	app    *cli.App
	dir    string
	path   string // the folders of the programs
	env    []string
	client *client.Client
	ports  *strings.Replacer // those of the pages may be in use here
}

// readersConfig has the hosts of the pages, all of them the practice cluster.
const readersConfig = `
[host.practice]
site = "practice"
[host.narval]
site = "narval"
[host.aspire2a]
site      = "aspire2a"
scheduler = "slurm"
[host.pegasus]
site = "pegasus"
[host.dfki]
site = "dfki"
[host.m3]
site = "m3"
[session.jupyter]
host   = "practice"
submit = "builtin:jupyter"
with   = { hours = 1 }
`

// readersSite finds the cluster's stand-in for Jupyter.
const readersSite = `
like  = "slurm"
title = "the practice cluster"
[entrance.main]
host = "practice"
[job]
directives = ["--time={{hms .hours}}"]
setup = 'PATH="$HOME/bin:$PATH"'
`

const readersJupyter = `#!/bin/sh
test "$1" = lab || exit 1
shift
if test "$1" = --version; then echo 4.2.5; exit; fi
for word; do
	case $word in --port=*) port=${word#--port=} ;; esac
done
dask=$(practice-page --free-port)
practice-page --port "$dask" >/dev/null 2>&1 &
echo "distributed.scheduler - INFO -   dashboard at:  http://127.0.0.1:$dask/status"
exec practice-page --port "$port"
`

// readersBrowser asks for the page it is given.
const readersBrowser = `#!/bin/bash
rest=${1#http://}
at=${rest%%/*}
exec 3<>"/dev/tcp/${at%:*}/${at#*:}"
printf 'GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n' "${rest#*/}" "$at" >&3
cat <&3 >/dev/null
`

func newReader(t *testing.T) *reader {
	t.Helper()
	for _, needed := range []string{"bash", "ssh", "git"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	r := &reader{app: newApp(strings.NewReader(""), io.Discard, io.Discard), dir: t.TempDir()}
	r.writeTools(t)
	r.path = strings.Join([]string{filepath.Join(r.dir, "tools"), filepath.Dir(program), os.Getenv("PATH")}, ":")
	r.env = append(os.Environ(), "HOME="+r.dir, "PATH="+r.path,
		"TUNCTL_HOME="+filepath.Join(r.dir, "tunctl"), "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG="+filepath.Join(r.dir, "ssh_config"),
		"EDITOR=true", "BROWSER="+filepath.Join(r.dir, "tools", "browser"), "NO_COLOR=1",
		"TUNCTL_CONFIG=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=", "SSH_AUTH_SOCK=", "DISPLAY=")
	writeFiles(t, r.dir, map[string]string{
		"tunctl/config.toml": readersConfig, "tunctl/sites/practice.toml": readersSite,
		"ourlab.toml": siteOfThePage(t), "tunctl/sites/ourlab.toml": siteOfThePage(t),
		"job.log":  "http://cn01:8888/lab?token=c0ffee0123456789\n",
		"train.sh": "#!/bin/sh\ntrue\n", "data.h5": "data", "data.csv": "data", "big.tar": "data", "project/main.py": "pass\n",
	})
	r.startCluster(t)
	r.client = client.New(home.In(filepath.Join(r.dir, "tunctl")))
	r.ports = strings.NewReplacer("5432", freePort(t), "8080", freePort(t))
	t.Cleanup(func() {
		if err := endAgent(filepath.Join(r.dir, "tunctl")); err != nil {
			t.Error(err)
		}
	})
	return r
}

// writeTools writes the programs that this machine lacks, or that must not read the files of
// the user who runs the test.
func (r *reader) writeTools(t *testing.T) {
	t.Helper()
	// ssh looks for its config in the home folder of the user database.
	withConfig := func(name string) string {
		return fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", lookPath(t, name), filepath.Join(r.dir, "ssh_config"))
	}
	writeFiles(t, filepath.Join(r.dir, "tools"), map[string]string{
		"ssh": withConfig("ssh"), "scp": withConfig("scp"), "browser": readersBrowser, "code": "#!/bin/sh\n", "positron": "#!/bin/sh\n",
		"myquota": "#!/bin/sh\necho 1 of 10 GB\n", "clusterinfo": "#!/bin/sh\necho 3 GPUs\n",
		"user_info": "#!/bin/sh\necho 2 projects\n", "diskusage_report": "#!/bin/sh\necho 1 of 50 GB\n",
	})
	for _, name := range []string{"rsync", "git-upload-pack"} { // the cluster's PATH is its own
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(r.dir, "tools", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// startCluster starts the cluster that every host of the pages leads to.
func (r *reader) startCluster(t *testing.T) {
	t.Helper()
	c, err := lab.Start(lab.Options{Dir: filepath.Join(r.dir, "cluster"), PageCommand: []string{program, practicePage}, QueueFor: -1, Path: r.path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.AllowExtend(true)
	writeFiles(t, c.Home(), map[string]string{
		"bin/jupyter": readersJupyter, "train.sh": "#!/bin/sh\ntrue\n", "results/a.csv": "1\n", "scratch/.keep": "", "project/.keep": "",
	})
	if out, err := exec.CommandContext(t.Context(), "git", "init", "--bare", filepath.Join(c.Home(), "repo")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	config, err := os.ReadFile(c.SSHConfig())
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Replace(string(config), "Host "+c.Alias(), "Host "+c.Alias()+" narval aspire2a dfki pegasus m3 myhost", 1)
	writeFiles(t, r.dir, map[string]string{"ssh_config": names})
}

// siteOfThePage is the file that the page about sites tells a reader to write.
func siteOfThePage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "adding-a-site.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```toml\n")
	text, _, _ = strings.Cut(text, "```")
	return text
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := testprogram.Write(path, []byte(text)); err != nil { // some are programs
			t.Fatal(err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = freeport.Close(l) }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// standsFor is what a reader writes in place of the words in capitals.
var standsFor = map[string]string{
	"HOST": "narval", "SITE": "narval", "NAME": "narval", "SESSION": "jupyter", "FILE": "job.log", "CMD": "true", "TIME": "10m",
	"COMMAND": "status", "NODE": "cn01", "PORT": "22", "WORD": "canada", "SCRIPT": "train.sh", "SRC": "data.h5", "DST": "narval:",
}

// capitals are such words; [A\|B] is either, or none.
var capitals = regexp.MustCompile(`\[?\b([A-Z]{2,})(?:\\?\|[A-Z]+)*\b\]?`)

// name replaces the placeholders with names. JOB stays: it is known only when the command
// runs.
func (r *reader) name(line string) string {
	line = capitals.ReplaceAllStringFunc(line, func(word string) string {
		name := capitals.FindStringSubmatch(word)[1]
		return cmp.Or(standsFor[name], name)
	})
	return strings.NewReplacer("4711", "JOB", "nc10214", "cn01", "48213", "JOB").Replace(line)
}

// try runs a line in a shell, with the notebook up.
func (r *reader) try(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if !r.installed(t, words[0]) {
		t.Skipf("%s is not installed", words[0]) // not our program
	}
	job := r.up(t)
	defer r.restore(t)
	command := strings.ReplaceAll(r.ports.Replace(line), "JOB", job)
	if answers := asked[line]; answers != "" {
		command += " " + answers
	}
	if r.isName(words) {
		command += " --help"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	l := &listener{word: endless[line], heard: cancel}
	cmd.Stdout, cmd.Stderr = l, l
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil && !l.done {
		t.Errorf("%s: %v\n%s", command, err, l.said.String())
	}
}

// installed reports whether a shell here finds a program.
func (r *reader) installed(t *testing.T, name string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `type "$1"`, "bash", name)
	cmd.Env = r.env
	return cmd.Run() == nil
}

// isName reports whether the words are only the name of a command that needs arguments.
func (r *reader) isName(words []string) bool {
	if words[0] != "tunctl" {
		return false
	}
	last := &cli.Command{Subcommands: r.app.Commands}
	value := false
	for _, word := range words[1:] {
		switch {
		case value:
			value = false
		case strings.HasPrefix(word, "-"):
			value = cmdline.TakesValue(last.Flags, word)
		default:
			if last = cmdline.FindCommand(last.Subcommands, word); last == nil {
				return false
			}
		}
	}
	return len(last.Subcommands) > 0 || last.ArgsUsage != "" && !strings.HasPrefix(last.ArgsUsage, "[")
}

// up brings the notebook up, and returns its job. After a job was cancelled, one try may fail
// because of that.
func (r *reader) up(t *testing.T) (job string) {
	t.Helper()
	var said []byte
	for range 3 {
		status, err := r.client.Status(t.Context())
		if err == nil {
			at := slices.IndexFunc(status.Sessions, func(s api.Session) bool { return s.Name == "jupyter" })
			if at >= 0 && status.Sessions[at].State == api.SessionReady {
				return status.Sessions[at].Job.ID
			}
		}
		said, _ = r.tunctl(t, "up", "jupyter", "--no-open").CombinedOutput()
	}
	t.Fatalf("the notebook is not up:\n%s", said)
	return ""
}

func (r *reader) tunctl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = r.env
	return cmd
}

// restore removes from the config what a command added, and stops its forwards.
func (r *reader) restore(t *testing.T) {
	t.Helper()
	file := filepath.Join(r.dir, "tunctl", "config.toml")
	text, err := os.ReadFile(file)
	if err == nil && string(text) != readersConfig {
		err = os.WriteFile(file, []byte(readersConfig), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	for _, name := range r.sessions(t) {
		if name == "jupyter" || name == r.ports.Replace("narval-5432") { // the page itself ends that one
			continue
		}
		// The agent removes a session that is down from its list when it reads the config.
		if out, err := r.tunctl(t, "down", name).CombinedOutput(); err != nil && slices.Contains(r.sessions(t), name) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// sessions are the names of the agent's sessions; none without an agent.
func (r *reader) sessions(t *testing.T) []string {
	t.Helper()
	status, err := r.client.Status(t.Context())
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range status.Sessions {
		names = append(names, s.Name)
	}
	return names
}

// listener keeps what a program says, and calls back at a word.
type listener struct {
	said  bytes.Buffer
	word  string
	heard func()
	done  bool
}

// Write implements io.Writer.
func (l *listener) Write(p []byte) (int, error) {
	n, err := l.said.Write(p)
	if l.word != "" && !l.done && strings.Contains(l.said.String(), l.word) {
		l.done = true
		l.heard()
	}
	return n, err
}
