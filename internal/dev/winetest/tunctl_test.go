//go:build linux

package winetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/lab"
)

const practiceConfig = `
[session.jupyter]
host   = "practice"
job    = "jupyterlab"
submit = "~/jupyter.sh"
`

// practice starts a practice cluster on the Linux side.
func practice(t *testing.T) *lab.Cluster {
	t.Helper()
	c, err := lab.Start(lab.Options{QueueFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(c.Home(), "jupyter.sh"), []byte(lab.JobScript(c.Dialect())), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// web waits for no answer without an end.
var web = http.Client{Timeout: patience}

// session is the session as `tunctl status` has it.
func (p *person) session(name string) (s api.Session) {
	p.t.Helper()
	out := p.tunctl("status", name, "--json").must(0).out
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// agentPID is the agent's process, as Windows counts.
func (p *person) agentPID() int {
	p.t.Helper()
	var a api.Agent
	out := p.tunctl("agent", "status", "--json").must(0).out
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	return a.PID
}

// opensPage fetches the session's page through the forward.
func (p *person) opensPage(session string) {
	p.t.Helper()
	url := strings.TrimSpace(p.tunctl("open", "--print", session).must(0).out)
	res, err := web.Get(url)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		p.t.Errorf("the page responded with %s, %v", res.Status, err)
	}
}

// runs is how often the test of a whole run repeats it; `make wine RUNS=20` sets it.
func runs() int {
	n, err := strconv.Atoi(os.Getenv("TUNCTL_WINE_RUNS"))
	if err != nil {
		return 2
	}
	return n
}

func TestASessionIsUpAndDownAndTheAgentStartsAndStops(t *testing.T) {
	needWine(t)
	c := practice(t)
	for i := range runs() {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			p := newPerson(t, c.SSHConfig(), practiceConfig)
			p.tunctl("agent", "status").must(5)
			p.tunctl("up", "--no-open").must(0)
			if s := p.session("jupyter"); s.State != api.SessionReady {
				t.Errorf("the session is %s: %s", s.State, s.Cause)
			}
			p.opensPage("jupyter")
			p.tunctl("down", "--cancel").must(0)
			p.tunctl("agent", "stop").must(0)
			p.tunctl("agent", "status").must(5)
		})
	}
}

func TestEightCommandsAtOnceStartOneAgent(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	said := make([]string, 8)
	var all sync.WaitGroup
	for i := range said {
		all.Go(func() { said[i] = p.tunctl("agent", "start").must(0).talk })
	}
	all.Wait()
	for _, text := range said {
		if text != said[0] || !strings.Contains(text, strconv.Itoa(p.agentPID())) {
			t.Errorf("commands say:\n%s", strings.Join(said, ""))
			break
		}
	}
	if n := strings.Count(p.agentLog(), "agent started"); n != 1 {
		t.Errorf("%d agents started", n)
	}
	second := p.tunctl("agent", "run").must(0)
	if !strings.Contains(second.talk, "another agent is already running") {
		t.Errorf("a second agent says %q", second.talk)
	}
}

func TestAKilledAgentComesBackWithItsSession(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	p.tunctl("up", "--no-open").must(0)
	before, pid := p.session("jupyter"), p.agentPID()
	p.run("taskkill", "/f", "/pid", strconv.Itoa(pid)).must(0)
	p.tunctl("agent", "status").must(5)
	p.tunctl("up", "--no-open").must(0)
	after := p.session("jupyter")
	if before.Job == nil || after.Job == nil || after.Job.ID != before.Job.ID || after.Local != before.Local || p.agentPID() == pid {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
	p.opensPage("jupyter")
	p.tunctl("down", "--cancel").must(0)
}

func TestALargeFileComesThroughAForwardUnchanged(t *testing.T) {
	needWine(t)
	const size = 200 << 20
	newFile := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{25}), size) }
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, newFile()) }))
	defer srv.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	p := newPerson(t, practice(t).SSHConfig(), fmt.Sprintf("[session.data]\nhost = \"practice\"\nforward = [\"%d:%s\"]\n", port, srv.Listener.Addr()))
	p.tunctl("up", "data").must(0)
	s := p.session("data")
	if len(s.Forwards) != 1 {
		t.Fatalf("forwards: %+v", s.Forwards)
	}
	res, err := web.Get("http://" + s.Forwards[0].Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	want, got := sha256.New(), sha256.New()
	_, _ = io.Copy(want, newFile())
	if n, err := io.Copy(got, res.Body); err != nil || n != size || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes came, %v", n, err)
	}
}

func TestFilesAreCopiedBothWays(t *testing.T) {
	needWine(t)
	c := practice(t)
	p := newPerson(t, c.SSHConfig(), practiceConfig)
	text := strings.Repeat("Größe\r\n\x00", 1<<20)
	p.write("Daten für morgen.bin", text)
	p.tunctl("cp", p.path("Daten für morgen.bin"), "practice:sent.bin").must(0)
	if got, err := os.ReadFile(filepath.Join(c.Home(), "sent.bin")); err != nil || string(got) != text {
		t.Errorf("%d bytes arrived on the host, %v", len(got), err)
	}
	p.tunctl("cp", "practice:sent.bin", p.path("zurück.bin")).must(0)
	if got, err := os.ReadFile(filepath.Join(p.home, "zurück.bin")); err != nil || string(got) != text {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

func TestACommandRunsOnTheHost(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	r := p.tunctl("ssh", "practice", "echo hello; echo trouble >&2; exit 7").must(7)
	if r.out != "hello\n" || !strings.Contains(r.talk, "trouble\n") {
		t.Errorf("%q, %q", r.out, r.talk)
	}
	in := p.tunctl("ssh", "practice", "wc -c").must(0) // its input ends at once
	if strings.TrimSpace(in.out) != "0" {
		t.Errorf("%q", in.out)
	}
}

func TestAProfileThatCannotBeWrittenToIsNamed(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	p.env = append(p.env, `TUNCTL_HOME=Z:\sys\tunctl`) // nobody creates folders there
	r := p.tunctl("agent", "start").must(5)
	if !strings.Contains(r.talk, "cannot create the state directory") || !strings.Contains(r.talk, `Z:\sys\tunctl`) || !strings.Contains(r.talk, "TUNCTL_HOME") {
		t.Errorf("it says:\n%s", r.talk)
	}
	p.tunctl("agent", "status").must(5)
}

func TestStartAtLoginIsSwitchedOnAndOff(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	tasks := func() []string {
		found, _ := filepath.Glob(filepath.Join(wine.drive(), "windows/system32/[Tt]asks/tunctl-agent-S-1-5-21-*"))
		return found
	}
	p.env = slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(v, "TUNCTL_HOME=") }) // a task has none
	p.run("schtasks", "/query").must(0)                                                                   // the first one starts Wine's services, which takes its time
	p.tunctl("autostart", "on").must(0)
	if found := tasks(); len(found) != 1 {
		t.Errorf("tasks: %q", found)
	}
	if r := p.tunctl("autostart", "status").must(0); !strings.Contains(r.out, "agent  on (Task Scheduler") || !strings.Contains(r.out, "tray   on (HKCU") {
		t.Errorf("it says:\n%s", r.out)
	}
	p.tunctl("autostart", "off").must(0)
	if found := tasks(); len(found) != 0 {
		t.Errorf("left: %q", found)
	}
	if r := p.tunctl("autostart", "status").must(0); strings.Contains(r.out, " on ") {
		t.Errorf("it says:\n%s", r.out)
	}
}

func TestTheProgramWithoutAWindowIsAnAgent(t *testing.T) {
	needWine(t)
	const name = "tunctlw.exe"
	if err := wine.build(filepath.Join(wine.drive(), programDir, name), "build", "-ldflags=-s -w -H=windowsgui", "tunctl/cmd/tunctl"); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	ended := make(chan result, 1)
	go func() { ended <- p.run(strings.TrimSuffix(wine.program, "tunctl.exe")+name, "agent", "run") }()
	p.awaitAgent()
	p.tunctl("up", "--no-open").must(0)
	p.tunctl("down", "--cancel").must(0)
	p.tunctl("agent", "stop").must(0)
	(<-ended).must(0)
}

// awaitAgent waits for an agent that is starting.
func (p *person) awaitAgent() {
	p.t.Helper()
	for end := time.Now().Add(patience); p.tunctl("agent", "status").code != 0; {
		if time.Now().After(end) {
			p.t.Fatal("no agent started")
		}
	}
}

func TestOtherProgramsAreToldHowToReachTheHost(t *testing.T) {
	needWine(t)
	p := newPerson(t, practice(t).SSHConfig(), practiceConfig)
	p.tunctl("ssh-config", "install").must(0)
	text, err := os.ReadFile(filepath.Join(p.home, "state", "gateway", "ssh_config"))
	want := `  ProxyCommand "` + strings.ReplaceAll(wine.program, `\`, "/") + `" connect --gateway "%n"`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, want the line\n%s\nin\n%s", err, want, text)
	}
	main, err := os.ReadFile(filepath.Join(p.home, "ssh_config"))
	if want := `Include "` + strings.ReplaceAll(p.path("state/gateway/ssh_config"), `\`, "/") + `"`; err != nil || !strings.Contains(string(main), want) {
		t.Errorf("%v, want the line\n%s\nin\n%s", err, want, main)
	}
}

func TestADemoSaysWhatItNeeds(t *testing.T) {
	needWine(t)
	r := newPerson(t, practice(t).SSHConfig(), practiceConfig).tunctl("demo").must(2)
	if !strings.Contains(r.talk, "WSL") || !strings.Contains(r.talk, "tunctl init") {
		t.Errorf("it says:\n%s", r.talk)
	}
	if r := newPerson(t, practice(t).SSHConfig(), "").tunctl("status").must(0); !strings.Contains(r.talk, "`tunctl demo`, which needs none, runs in WSL") {
		t.Errorf("without a session, status says:\n%s", r.talk)
	}
}

const labConfig = `
[session.key]
host   = "lab-login"
job    = "jupyterlab"
submit = "~/jupyter.sh"

[session.password]
host   = "lab-pass"
job    = "jupyterlab"
submit = "~/jupyter.sh"
`

func TestAKeyAndAPasswordLogInToARealServer(t *testing.T) {
	needWine(t, "ssh", "slurm", "jupyter")
	l := real.Share(t)
	p := newPerson(t, l.SSHConfig(), labConfig)
	p.tunctl("up", "key", "--no-open").must(0)
	p.opensPage("key")

	answer := wine.testProgram(t, "tunctl/internal/dev/winetest")
	p.env = append(p.env, "TUNCTL_SESSION=password", "TUNCTL_ANSWER="+real.Password)
	p.run(answer, "-test.v", "-test.run", "TestAnswer").must(0)
	p.opensPage("password")
	p.tunctl("down", "--all", "--cancel").must(0)
	if log := p.agentLog(); strings.Contains(log, real.Password) {
		t.Error("the password is in the log")
	}
}
