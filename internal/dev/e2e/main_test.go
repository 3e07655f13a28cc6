package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/home"
)

// patience bounds every wait of these tests; none is meant to take it.
const patience = wait.Limit

// badWords must never stand in an agent's log; a token that is masked may.
var badWords = regexp.MustCompile(`DATA RACE|panic:|token=[^•\s]`)

func TestMain(m *testing.M) {
	real.Role() // a lab's own processes build nothing
	os.Exit(testprogram.Run(real.Wanted() || os.Getenv(pbsHost) != "", func() int { return real.Main(m) }))
}

// laptop is the user's machine: the built program, a home and a config of its own.
type laptop struct {
	t      *testing.T
	lab    *real.Lab
	home   string
	env    []string
	client *client.Client
	port   int          // what PORT in its config is
	own    *real.Laptop // its own disk and names, where it has them
}

func newLaptop(t *testing.T, config string) *laptop {
	t.Helper()
	l := furnish(t, real.Start(t), config)
	t.Cleanup(l.close)
	return l
}

// newQuietLaptop is one at the lab where nothing is broken, so that tests can wait for
// Slurm together.
func newQuietLaptop(t *testing.T, config string) *laptop {
	t.Helper()
	l := furnish(t, real.Share(t), config)
	t.Cleanup(l.close)
	return l
}

// furnish makes a laptop that is not yet closed by itself. PORT in its config is a port
// that no other laptop has.
func furnish(t *testing.T, lab *real.Lab, config string) *laptop {
	t.Helper()
	l := &laptop{t: t, lab: lab, home: filepath.Join(t.TempDir(), "h"), port: testport.Free(t)}
	config = strings.ReplaceAll(config, "PORT", strconv.Itoa(l.port))
	l.env = append(os.Environ(), "TUNCTL_HOME="+l.home, "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+lab.SSHConfig(),
		"TUNCTL_PRACTICE=1", "SSH_AUTH_SOCK=", "DISPLAY=", "BROWSER=", "NO_COLOR=1")
	if err := os.MkdirAll(l.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l.client = client.New(home.In(l.home))
	return l
}

// close ends the agent and looks at what it wrote.
func (l *laptop) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := l.commandIn(ctx, "agent", "stop")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Errorf("agent stop: %v\n%s", err, out)
	}
	log := l.agentLog()
	if bad := badWords.FindString(log); bad != "" {
		l.t.Errorf("the agent's log has %q", bad)
	}
	if l.t.Failed() {
		l.t.Logf("the agent's log:\n%s", log)
		jobs, _ := l.lab.As("hpcuser", "sh", "-c", "tail -n 40 ~/*.log") // there may be none
		l.t.Logf("the jobs' logs:\n%s", jobs)
	}
}

func (l *laptop) agentLog() string {
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(l.home, "state", name)) }
	if l.own != nil {
		read = l.own.DiskFile
	}
	log, err := read("agent.log")
	if err != nil {
		return err.Error()
	}
	return string(log)
}

func (l *laptop) command(args ...string) *exec.Cmd {
	return l.commandIn(l.t.Context(), args...)
}

func (l *laptop) commandIn(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, testprogram.Path(), args...)
	if l.own != nil {
		cmd = l.own.Command(ctx, append([]string{testprogram.Path()}, args...)...)
	}
	cmd.Env = l.env
	return cmd
}

// run runs tunctl as the user would and fails the test where it fails.
func (l *laptop) run(args ...string) (out, talk string) {
	l.t.Helper()
	cmd := l.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("tunctl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// status is the session as `tunctl status` has it now.
func (l *laptop) status() api.Session {
	l.t.Helper()
	out, _ := l.run("status", "jupyter", "--json")
	var s api.Session
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// until waits for the session to be as wanted, and returns it with the states it
// went through.
func (l *laptop) until(what string, want func(api.Session) bool) (api.Session, []string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	var last api.Session
	var states []string
	seen := false
	_ = l.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		switch {
		case seen:
			return
		case e.Status != nil:
			last, _ = e.Status.Session("jupyter")
		case e.Session != nil:
			last = *e.Session
		default:
			return
		}
		if line := string(last.State) + ": " + last.Cause; len(states) == 0 || states[len(states)-1] != line {
			states = append(states, line)
		}
		if want(last) {
			seen = true
			cancel()
		}
	})
	if !seen {
		l.t.Fatalf("the session was never %s:\n%s", what, strings.Join(states, "\n"))
	}
	return last, states
}

// untilHeld waits until what the last lost connection meant for the job's programs is as wanted. It is noted a moment after
// they go on.
func (l *laptop) untilHeld(what string, want func(api.Held) bool) {
	l.t.Helper()
	wait.Until(l.t, what, func() bool { h := l.status().Held; return h != nil && want(*h) })
}

func (l *laptop) agentPID() int {
	l.t.Helper()
	st, err := l.client.Status(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return st.Agent.PID
}

func is(state api.SessionState) func(api.Session) bool {
	return func(s api.Session) bool { return s.State == state }
}

// page is the address of the session's page, and its token.
func (l *laptop) page() (base *url.URL, token string) {
	l.t.Helper()
	out, _ := l.run("open", "--print", "jupyter")
	u, err := url.Parse(strings.TrimSpace(out))
	if err != nil {
		l.t.Fatal(err)
	}
	token = u.Query().Get("token")
	u.RawQuery, u.Path = "", "/"
	return u, token
}

// pbsHost names a host that has PBS.
const pbsHost = "TUNCTL_PBS_HOST"

// pictures says that pages are to be photographed, which proves nothing and may take minutes where memory is short.
var pictures = os.Getenv("TUNCTL_SCREENSHOTS") != ""

// artifact is where something worth a look is kept.
func artifact(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("TUNCTL_ARTIFACTS")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
