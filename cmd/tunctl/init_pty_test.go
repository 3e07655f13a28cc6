//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"tunctl/internal/lab"
)

// talk is a program in a pseudo-terminal, and what it has said.
type talk struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	gone chan struct{}
	more chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
	read int // up to where expect has looked
}

func startTalk(t *testing.T, env []string, args ...string) *talk {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 110})
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{t: t, pty: f, cmd: cmd, gone: make(chan struct{}), more: make(chan struct{}, 1)}
	go k.listen()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-k.gone
	})
	return k
}

func (k *talk) listen() {
	defer close(k.gone)
	buf := make([]byte, 4096)
	for {
		n, err := k.pty.Read(buf)
		k.mu.Lock()
		k.said.Write(buf[:n])
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// expect waits until the program says the words, after those of the last expect.
func (k *talk) expect(words string) {
	k.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	ended := false
	for {
		k.mu.Lock()
		rest := k.said.String()[k.read:]
		at := strings.Index(rest, words)
		if at >= 0 {
			k.read += at + len(words)
		}
		k.mu.Unlock()
		if at >= 0 {
			return
		}
		if ended {
			k.t.Fatalf("it never said %q, but:\n%s", words, rest)
		}
		select {
		case <-k.more:
		case <-k.gone:
			ended = true
		case <-deadline.C:
			k.t.Fatalf("it has not said %q, but:\n%s", words, rest)
		}
	}
}

func (k *talk) say(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.pty, line); err != nil {
		k.t.Fatal(err)
	}
}

// end waits for the program and returns its exit code.
func (k *talk) end() int {
	k.t.Helper()
	<-k.gone
	_ = k.cmd.Wait() // its code says it all
	return k.cmd.ProcessState.ExitCode()
}

// personAt makes a home with a site of its own for a practice cluster.
func personAt(t *testing.T, c *lab.Cluster) (env []string, config string) {
	t.Helper()
	dir := t.TempDir()
	site := "like = \"slurm\"\ntitle = \"our practice cluster\"\n[entrance.main]\nhost = \"practice\"\n[entrance.side]\nhost = \"side.example.org\"\n"
	if err := os.MkdirAll(filepath.Join(dir, "sites"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sites", "ours.toml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := endAgent(dir); err != nil {
			t.Error(err)
		}
	})
	return []string{
		"TUNCTL_HOME=" + dir, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"), "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG=" + c.SSHConfig(),
	}, filepath.Join(dir, "config.toml")
}

func TestAPersonAnswersTheInterviewAtATerminal(t *testing.T) {
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)

	k := startTalk(t, env, "init")
	k.expect("These clusters are known:")
	k.expect("aspire2a")
	k.expect("in your ssh config:")
	k.expect("practice")
	k.expect("Which one?")
	k.say("narwal\n")
	k.expect("no site \"narwal\"")
	k.expect("Which one?")
	k.say("ours\n")
	k.expect("Which entrance? [main]")
	k.say("\n")
	k.expect("Which account is charged?")
	k.say("def ann\n")
	k.expect("must be one plain word")
	k.say("def-ann\n")
	k.expect("How many hours should the job last? [2]")
	k.say("0.5\n")
	k.expect("How many GPUs? [0]")
	k.say("\n")
	k.expect("added to")
	k.expect("connected to ours")
	k.expect("Now: tunctl up jupyter")
	if code := k.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[host.ours]\nssh  = \"practice\"\nsite = \"ours\"\n", `with   = { account = "def-ann", hours = 0.5, gpus = 0 }`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestCtrlCInTheInterviewWritesNothing(t *testing.T) {
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)
	k := startTalk(t, env, "init", "ours")
	k.expect("Which entrance?")
	k.say("\x03")
	k.expect("stopped")
	if code := k.end(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("there is a config")
	}
}

func TestAPersonChoosesAmongSeveralJobs(t *testing.T) {
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}, QueueFor: -1})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)
	script := filepath.Join(c.Home(), "jupyter.sh")
	if err := os.WriteFile(script, []byte(lab.JobScript(c.Dialect())), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "[session.a]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n[session.b]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		cmd := exec.CommandContext(t.Context(), program, "up", name, "--no-open")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	k := startTalk(t, env, "attach", "practice", "--no-open")
	k.expect("1) 1002")
	k.expect("2) 1001")
	k.expect("Which one? [1-2]")
	k.say("7\n")
	k.expect("Which one? [1-2]")
	k.say("2\n")
	k.expect("practice-1001\x1b[0m is ready")
	if code := k.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
