package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/autostart"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lab"
)

// sandbox is a home with a practice cluster, for tests that scripts cannot write.
type sandbox struct {
	t       testing.TB
	home    string
	env     []string
	cluster *lab.Cluster
}

const sandboxConfig = `
[session.jupyter]
host   = "practice"
job    = "jupyterlab"
submit = "~/jupyter.sh"
`

func newSandbox(t testing.TB) *sandbox { return newSandboxQueued(t, 200*time.Millisecond) }

// newSandboxQueued is newSandbox on a cluster whose jobs are queued for so long.
func newSandboxQueued(t testing.TB, queued time.Duration) *sandbox {
	t.Helper()
	return newSandboxOf(t, lab.Options{QueueFor: queued})
}

// newSandboxOf is newSandbox on such a cluster.
func newSandboxOf(t testing.TB, o lab.Options) *sandbox {
	t.Helper()
	c := startPractice(t, o)
	dir := t.TempDir()
	s := sandboxIn(t, filepath.Join(dir, "home"), c, append(os.Environ(),
		"HOME="+dir, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1", "SSH_AUTH_SOCK=", "DISPLAY=", "TERM=xterm", "NO_COLOR=", "TUNCTL_SSH_CONFIG="+c.SSHConfig())...)
	s.write(filepath.Join(c.Home(), "jupyter.sh"), lab.JobScript(c.Dialect()))
	s.setConfig(sandboxConfig)
	return s
}

// sandboxIn is a home, which may have no cluster. Its agent ends with the test.
func sandboxIn(t testing.TB, home string, c *lab.Cluster, env ...string) *sandbox {
	t.Cleanup(func() {
		if err := endAgent(home); err != nil {
			t.Error(err)
		}
	})
	return &sandbox{t: t, home: home, cluster: c, env: append(env, "TUNCTL_HOME="+home)}
}

// startPractice starts a practice cluster whose pages the program serves.
func startPractice(t testing.TB, o lab.Options) *lab.Cluster {
	t.Helper()
	o.Dir, o.PageCommand = t.TempDir(), []string{program, practicePage}
	c, err := lab.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (s *sandbox) setConfig(text string) {
	s.t.Helper()
	s.write(filepath.Join(s.home, "config.toml"), text)
}

// config is the text of the config; "": there is none.
func (s *sandbox) config() string {
	text, _ := os.ReadFile(filepath.Join(s.home, "config.toml"))
	return string(text)
}

// wantConfig checks that the config has these texts.
func (s *sandbox) wantConfig(texts ...string) {
	s.t.Helper()
	for _, want := range texts {
		if !strings.Contains(s.config(), want) {
			s.t.Errorf("%q is missing in:\n%s", want, s.config())
		}
	}
}

func (s *sandbox) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Env = s.env
	return cmd
}

// run runs tunctl, and fails the test if tunctl fails.
func (s *sandbox) run(args ...string) string {
	s.t.Helper()
	cmd := s.command(args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.home, "state", "agent.log"))
		s.t.Fatalf("tunctl %s: %v\n%s\n%s", strings.Join(args, " "), err, talk.String(), log)
	}
	return out.String()
}

func (s *sandbox) agentPID() int {
	s.t.Helper()
	var a api.Agent
	if err := json.Unmarshal([]byte(s.run("agent", "status", "--json")), &a); err != nil {
		s.t.Fatal(err)
	}
	return a.PID
}

// live are the jobs that are queued or running.
func (s *sandbox) live() []lab.Job {
	var live []lab.Job
	for _, j := range s.cluster.Jobs() {
		if j.State == "PENDING" || j.State == "RUNNING" {
			live = append(live, j)
		}
	}
	return live
}

// supervise plays systemd's part with the agent's unit: an agent that did not end by
// itself is started again.
func (s *sandbox) supervise() {
	var supervising sync.WaitGroup
	s.t.Cleanup(supervising.Wait) // it ends with the test's context, or when the agent is stopped
	supervising.Go(func() {
		for {
			err := s.command("agent", "run").Run()
			if err == nil || ctxtime.Sleep(s.t.Context(), autostart.RestartDelay) != nil {
				return
			}
		}
	})
}

// await waits until the session is as wanted. No answer from an agent that is being killed
// is no answer.
func (s *sandbox) await(what string, want func(api.Session) bool) api.Session {
	s.t.Helper()
	var now api.Session
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, err := s.command("status", "jupyter", "--json").Output()
		if err == nil {
			err = json.Unmarshal(out, &now)
		}
		if err == nil && want(now) {
			return now
		}
	}
	s.t.Fatalf("the session was never %s: %+v", what, now)
	return now
}

func (s *sandbox) killAgent(sig os.Signal) {
	s.t.Helper()
	agent, err := os.FindProcess(s.agentPID())
	if err == nil {
		err = agent.Signal(sig)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAgentKilled(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.supervise()
	ready := func(x api.Session) bool { return x.State == api.SessionReady }
	s.await("known to an agent", func(api.Session) bool { return s.command("agent", "status").Run() == nil })
	s.run("up", "--no-open")
	before := s.await("ready", ready)
	for range 2 {
		began := before.Since
		s.killAgent(os.Kill)
		after := s.await("ready again", func(x api.Session) bool { return ready(x) && x.Since.After(began) })
		before.Since = after.Since
		if after.Local != before.Local || after.Job.ID != before.Job.ID {
			t.Errorf("before: %+v\nafter: %+v", before, after)
		}
	}
	logins := s.cluster.Logins()
	last := os.Kill
	if runtime.GOOS != "windows" {
		last = syscall.SIGABRT // ends a Go program as a panic does
	}
	s.killAgent(last)
	paused := s.await("paused", func(x api.Session) bool { return x.State == api.SessionFailed })
	if !strings.Contains(paused.Cause, "crashed 3 times") || paused.Local != before.Local {
		t.Errorf("after the third crash: %+v", paused)
	}
	for _, words := range [][]string{{"status"}, {"agent", "status"}, {"agent", "start"}} {
		var talk bytes.Buffer
		cmd := s.command(words...)
		cmd.Stderr = &talk
		if err := cmd.Run(); err != nil || !strings.Contains(talk.String(), "warning: the agent crashed 3 times within 10 min") || !strings.Contains(talk.String(), "`tunctl up` connects again") {
			t.Errorf("%q says %q, %v", words, talk.String(), err)
		}
	}
	if n := s.cluster.Logins(); n != logins {
		t.Errorf("%d logins after the third crash", n-logins)
	}
	if log := s.run("agent", "log"); last != os.Kill && !strings.Contains(log, "SIGABRT: abort") {
		t.Errorf("the log has no trace of the crash:\n%s", log)
	}
	s.run("up", "--no-open")
	if after := s.await("ready", ready); after.Local != before.Local || after.Job.ID != before.Job.ID {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
	s.run("agent", "restart") // is no crash, and ends what supervise does
	s.await("ready", ready)
	if out, err := s.command("status").CombinedOutput(); err != nil || strings.Contains(string(out), "crashed") {
		t.Errorf("after a clean restart: %s %v", out, err)
	}
	if jobs := s.cluster.Jobs(); len(jobs) != 1 {
		t.Errorf("%d jobs were submitted", len(jobs))
	}
}

func TestAgentStartedOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	var work sync.WaitGroup
	said := make([]string, 20)
	for i := range said {
		work.Go(func() {
			out, err := s.command("agent", "start").CombinedOutput()
			said[i] = fmt.Sprint(string(out), err)
		})
	}
	work.Wait()
	want := fmt.Sprintf("the agent is running (pid %d)\n<nil>", s.agentPID())
	for i, got := range said {
		if got != want {
			t.Errorf("command %d said %q, want %q", i, got, want)
		}
	}
	log, err := os.ReadFile(filepath.Join(s.home, "state", "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "agent started"); n != 1 {
		t.Errorf("%d agents were started:\n%s", n, log)
	}
}

func TestAgentSurvivesGarbage(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	pid := s.agentPID()
	socket := filepath.Join(s.home, "run", "agent.sock")
	if _, err := os.Stat(socket); err != nil {
		t.Skipf("the home's path is too long for a socket in it: %v", err)
	}
	for _, garbage := range []string{"\x00\xff\xfe", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("A", 1<<20), "POST /v1/up HTTP/1.1\r\nHost: tunctl\r\nContent-Length: 3\r\n\r\n{{{"} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, garbage) // it may hang up in the middle
		if half, ok := conn.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
		answer, _ := io.ReadAll(conn)
		if len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
			t.Errorf("garbage %.10q was answered %.60q", garbage, answer)
		}
		_ = conn.Close()
	}
	if got := s.agentPID(); got != pid {
		t.Errorf("agent %d became %d", pid, got)
	}
}

// BenchmarkStatus is a whole `tunctl status` with an agent running, as the user
// waits for it.
func BenchmarkStatus(b *testing.B) {
	s := newSandbox(b)
	s.run("agent", "start")
	for b.Loop() {
		s.run("status")
	}
}
