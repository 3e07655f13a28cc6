package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// badWords must never stand in an agent's log; a token that is masked may.
var badWords = regexp.MustCompile(`DATA RACE|panic:|token=[^•\s]`)

// program is the built binary that the tests run.
var program string

// together is how many of these tests run at once, unless -parallel says otherwise:
// they mostly wait, for a job or for the end of a fault.
const together = "8"

func TestMain(m *testing.M) {
	// A program with the race detector would wait a second before it ends.
	for _, err := range []error{os.Setenv("GORACE", "atexit_sleep_ms=0"), flag.Set("test.parallel", together)} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(testprogram.Run(true, func() int {
		program = testprogram.Path()
		return m.Run()
	}))
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: prepareScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": startCluster,
			"fault":   fault,
			"jobs":    countJobs,
			"exits":   exits,
			"get":     get,
			"until":   until,
			"finally": finally,
			"leaks":   leaks,
			"ports":   reservePorts,

			"screen": recordScreen,

			"one-login": oneLogin,
		},
		UpdateScripts: os.Getenv("TUNCTL_UPDATE_SCREENS") != "",
	})
}

// prepareScript gives each script a home of its own, and looks at its agent's log for
// races and secrets when it is over.
func prepareScript(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	for name, value := range map[string]string{
		"HOME":               env.WorkDir,
		"TUNCTL_HOME":        home,
		"TUNCTL_CONFIG":      "",
		"TUNCTL_SSH_CONFIG":  filepath.Join(env.WorkDir, "no-ssh-config"),
		"XDG_CONFIG_HOME":    "",
		"XDG_RUNTIME_DIR":    "",
		"SSH_AUTH_SOCK":      "",
		"DISPLAY":            "",
		"BROWSER":            "",
		"PROGRAM":            program,
		"NO_COLOR":           "1",
		"GORACE":             os.Getenv("GORACE"),
		"GOGC":               os.Getenv("GOGC"),
		testprogram.CoverDir: os.Getenv(testprogram.CoverDir),
		"PATH":               filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH"),
	} {
		env.Setenv(name, value)
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "no-ssh-config"), nil, 0o600); err != nil {
		return err
	}
	t := env.T()
	env.Defer(func() {
		others, err := filepath.Glob(filepath.Join(env.WorkDir, "two")) // of a script with two computers
		for _, home := range append(others, home) {
			err = errors.Join(err, endAgent(home))
		}
		if err != nil {
			t.Log(err)
			t.FailNow()
		}
	})
	return nil
}

// endAgent stops a home's agent and looks at what it wrote.
func endAgent(home string) error {
	cmd := exec.Command(program, "agent", "stop")
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("agent stop: %w\n%s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(home, "state", "agent.log"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if bad := badWords.Find(log); bad != nil {
		return fmt.Errorf("the agent's log has %q:\n%s", bad, log)
	}
	return nil
}

// reservePorts reserves a port for each name, and writes it into the script's environment and, for $NAME, into
// the script's files: ports PAGE.
func reservePorts(ts *testscript.TestScript, _ bool, args []string) {
	block, err := testport.Reserve(context.Background())
	ts.Check(err)
	ts.Defer(block.Close)
	var values []string
	for _, name := range args {
		port, err := block.Take(context.Background())
		ts.Check(err)
		ts.Setenv(name, strconv.Itoa(port))
		values = append(values, "$"+name, strconv.Itoa(port))
	}
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.NewReplacer(values...).Replace(string(text))), 0o600)
	}))
}

// startCluster starts a practice cluster for the script: cluster [slurm|pbs].
func startCluster(ts *testscript.TestScript, _ bool, args []string) {
	o := lab.Options{Dir: ts.MkAbs("cluster"), PageCommand: []string{program, practicePage}, QueueFor: 300 * time.Millisecond}
	if len(args) > 0 {
		o.Dialect = args[0]
	}
	c, err := lab.Start(o)
	ts.Check(err)
	ts.Defer(func() { ts.Check(c.Close()) })
	ts.Check(os.WriteFile(filepath.Join(c.Home(), "jupyter.sh"), []byte(lab.JobScript(c.Dialect())), 0o600))
	ts.Setenv("TUNCTL_SSH_CONFIG", sshConfig(ts, c))
	ts.Setenv("TUNCTL_PRACTICE", "1")
	ts.Setenv("CLUSTER_HOME", c.Home())
	clusters.Store(ts.Name()+ts.MkAbs(""), c)
}

// sshConfig has the cluster, and hosts that fail: keyless offers no key, changed and stranger
// know another host key or none. Each is another user, since names of one account share one
// connection. Mover is another machine with the same files.
func sshConfig(ts *testscript.TestScript, c *lab.Cluster) string {
	_, port, err := net.SplitHostPort(c.Addr())
	ts.Check(err)
	other := fmt.Sprintf("[127.0.0.1]:%s ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\n", port)
	ts.Check(os.WriteFile(ts.MkAbs("other_hosts"), []byte(other), 0o600))
	path := ts.MkAbs("ssh_config")
	text := fmt.Sprintf(`Include %s
Host keyless
  User keyless
  UserKnownHostsFile %s
Host changed
  User changed
  UserKnownHostsFile %s
Host stranger
  User stranger
  UserKnownHostsFile %s
Host closed
  HostName 127.0.0.1
  Port 1
Host mover
  HostName localhost
  HostKeyAlias cn01
  IdentityFile %s
  UserKnownHostsFile %s
Host *
  HostName 127.0.0.1
  Port %s
  User student
  IdentityFile %s
  IdentitiesOnly yes
`, c.SSHConfig(), beside(c, "known_hosts"), ts.MkAbs("other_hosts"), ts.MkAbs("no_hosts"), beside(c, "id_ed25519"), beside(c, "known_hosts"), port, ts.MkAbs("no_key"))
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// beside is a file that the cluster has for its clients.
func beside(c *lab.Cluster, name string) string {
	return filepath.Join(filepath.Dir(c.SSHConfig()), name)
}

// fault does something to the cluster: fault drop|refuse|accept|kill|controller-down|…
func fault(ts *testscript.TestScript, _ bool, args []string) {
	c := clusterOf(ts)
	switch args[0] {
	case "drop":
		c.DropAll()
	case "refuse":
		ts.Check(c.Refuse(true))
	case "accept":
		ts.Check(c.Refuse(false))
	case "kill":
		ts.Check(c.KillJob(lastJob(ts, c)))
	case "controller":
		c.Controller(args[1] == "up")
	case "forwarding":
		c.AllowForwarding(args[1] == "allow")
	case "extend":
		c.AllowExtend(args[1] == "allow")
	case "age":
		by, err := time.ParseDuration(args[1])
		ts.Check(err)
		c.Age(by)
	case "timeout":
		ts.Check(c.TimeOut(args[1]))
	case "fail-submit":
		c.FailSubmit(args[1], 1)
	default:
		ts.Fatalf("no fault %q", args[0])
	}
}

func lastJob(ts *testscript.TestScript, c *lab.Cluster) string {
	all := c.Jobs()
	if len(all) == 0 {
		ts.Fatalf("no job")
	}
	return all[len(all)-1].ID
}

// patience bounds the waits of scripts; none should reach it.
const patience = wait.Limit

// countJobs checks how many jobs there were, and how many are not over: jobs 2 1. A
// job that was cancelled takes a moment to end: where none is to be left, it waits.
func countJobs(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, live := 0, 0
	for _, j := range clusterOf(ts).Jobs() {
		all++
		switch {
		case j.State == "COMPLETING" || args[1] == "0":
			ts.Check(clusterOf(ts).Await(ctx, j.ID))
		case !j.Over():
			live++
		}
	}
	if got := fmt.Sprintf("%d %d", all, live); got != strings.Join(args, " ") {
		ts.Fatalf("there were %s jobs (ever, now), want %s", got, strings.Join(args, " "))
	}
}

// exits runs tunctl and checks its exit code: exits 2 tunctl up nothing.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// get fetches the address that the last command printed and checks the answer's
// status: get 200.
func get(ts *testscript.TestScript, _ bool, args []string) {
	url := strings.TrimSpace(ts.ReadFile("stdout"))
	fetch := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Get
	res, err := fetch(url)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for errors.Is(err, syscall.ECONNREFUSED) && ctx.Err() == nil { // who listens may still be starting
		res, err = fetch(url)
	}
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	if got := strconv.Itoa(res.StatusCode); got != args[0] {
		ts.Fatalf("%s answers %s, want %s:\n%s", url, got, args[0], body)
	}
}

// finally runs a command of tunctl again and again until its output has a text, or with ! has
// it no longer: ! finally own2 status.
func finally(ts *testscript.TestScript, neg bool, args []string) {
	text := regexp.MustCompile(args[0])
	env := []string{"TUNCTL_HOME=" + ts.Getenv("TUNCTL_HOME"), "HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH")}
	for began := time.Now(); ; {
		cmd := exec.Command(program, args[1:]...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err == nil && text.Match(out) != neg {
			return
		}
		if time.Since(began) > patience {
			ts.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}

// until runs `tunctl status --watch` until a line of it has the words: until jupyter ended.
func until(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "status", "--watch")
	cmd.Env = []string{"TUNCTL_HOME=" + ts.Getenv("TUNCTL_HOME"), "HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH")}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	seen := waitForWords(out, args)
	cancel()
	_ = cmd.Wait() // killed by us
	if !seen {
		ts.Fatalf("status never said %q", args)
	}
}

// writeFiles writes texts to files below a folder; some are programs.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := testprogram.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// clusters are the scripts' practice clusters, by script.
var clusters sync.Map

func clusterOf(ts *testscript.TestScript) *lab.Cluster {
	c, ok := clusters.Load(ts.Name() + ts.MkAbs(""))
	if !ok {
		ts.Fatalf("the script has no cluster yet")
	}
	return c.(*lab.Cluster)
}

// waitForWords reads lines until one has all the words.
func waitForWords(r io.Reader, words []string) bool {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		missing := 0
		for _, w := range words {
			if !strings.Contains(lines.Text(), w) {
				missing++
			}
		}
		if missing == 0 {
			return true
		}
	}
	return false
}

// oneLogin checks that the cluster was logged in to once.
func oneLogin(ts *testscript.TestScript, _ bool, _ []string) {
	if n := clusterOf(ts).Logins(); n != 1 {
		ts.Fatalf("%d logins", n)
	}
}
