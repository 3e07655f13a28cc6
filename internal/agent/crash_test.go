package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/freeport"
	"tunctl/internal/home"
)

const twoSessions = config + `
[session.db]
host    = "practice"
forward = ["PORT:db.int:5432"]
`

// crash leaves what a killed agent leaves, and starts the next one.
func (w *world) crash() {
	w.t.Helper()
	w.killed(time.Now())
}

// killed leaves what an agent leaves that was killed and had started at since, and starts
// the next one.
func (w *world) killed(since time.Time) {
	w.t.Helper()
	state, err := os.ReadFile(w.paths.StateFile()) // a clean stop changes it
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	w.write(w.paths.StateFile(), string(state))
	if err := w.paths.SetRunning(home.Running{PID: 1, Since: since, Socket: w.paths.Socket}); err != nil {
		w.t.Fatal(err)
	}
	w.start()
}

func (w *world) status() api.Status {
	w.t.Helper()
	st, err := w.client.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// get is what a browser gets at the session's local address.
func get(t *testing.T, local string) string {
	t.Helper()
	browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+local+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	res, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(page))
}

func readyNotebook(s api.Session) bool { return s.Name == "jupyter" && ready(s) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = freeport.Close(l)
	return l.Addr().(*net.TCPAddr).Port
}

func TestAfterThreeCrashesTheAgentWaitsForAPerson(t *testing.T) {
	w := newWorld(t)
	w.write(w.paths.Config, strings.Replace(twoSessions, "PORT", strconv.Itoa(freePort(t)), 1))
	before := w.up()
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "db"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.crash()
		if after := w.until("ready", readyNotebook); after.Local != before.Local || after.Job.ID != before.Job.ID {
			t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
		}
	}
	if st := w.status(); st.Agent.Paused != nil {
		t.Errorf("paused after two crashes: %+v", st.Agent.Paused)
	}
	logins := w.cluster.Logins()
	w.crash()
	st := w.status()
	if st.Agent.Paused == nil || !strings.Contains(st.Agent.Paused.Message, "crashed 3 times within 10 min") {
		t.Fatalf("paused = %+v", st.Agent.Paused)
	}
	for _, s := range st.Sessions {
		if s.State != api.SessionFailed || s.Cause != st.Agent.Paused.Message || !strings.Contains(s.Hint, "tunctl up "+s.Name) {
			t.Errorf("%s is %s: %s (%s)", s.Name, s.State, s.Cause, s.Hint)
		}
	}
	if s, _ := st.Session("jupyter"); s.Job == nil || s.Job.ID != before.Job.ID {
		t.Errorf("the job is not shown: %+v", s.Job)
	}
	if page := get(t, before.Local); !strings.HasPrefix(page, "503") || !strings.Contains(page, "The agent crashed 3 times") {
		t.Errorf("a browser gets %.300s", page)
	}
	if n := w.cluster.Logins(); n != logins {
		t.Errorf("%d logins by an agent that should not connect", n-logins)
	}

	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "db"}); err != nil { // of another session
		t.Fatal(err)
	}
	if after := w.until("ready", readyNotebook); after.Local != before.Local || after.Job.ID != before.Job.ID {
		t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
	}
	if st := w.status(); st.Agent.Paused != nil {
		t.Errorf("still paused: %+v", st.Agent.Paused)
	}
	if jobs := w.cluster.Jobs(); len(jobs) != 1 {
		t.Errorf("%d jobs were submitted", len(jobs))
	}

	w.stop() // by a person, or by the system at logout
	w.start()
	w.until("ready", readyNotebook)
	w.crash()
	if st := w.status(); st.Agent.Paused != nil {
		t.Errorf("paused by crashes before a clean stop: %+v", st.Agent.Paused)
	}
}

func TestAComputerThatWasSwitchedOffIsNoCrash(t *testing.T) {
	w := newWorld(t)
	w.up()
	for range 3 {
		w.killed(time.Now().AddDate(-20, 0, 0)) // before this computer was started
		w.until("ready", ready)
	}
	if st := w.status(); st.Agent.Paused != nil {
		t.Errorf("paused: %+v", st.Agent.Paused)
	}
}

func TestTheLoginEndsThePauseToo(t *testing.T) {
	w := newWorld(t)
	w.up()
	for range 3 {
		w.crash()
	}
	w.until("failed", func(s api.Session) bool { return s.State == api.SessionFailed })
	if _, err := w.client.Login(t.Context(), "practice"); err != nil {
		t.Fatal(err)
	}
	w.until("ready", ready)
}

func TestThePortIsOpenBeforeARestartedAgentAnswersOrConnects(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if err := w.cluster.Refuse(true); err != nil { // no login for now
		t.Fatal(err)
	}
	w.stop()
	w.start()
	conn, err := net.Dial("tcp", before.Local) // at once, without another try
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /api HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", before.Local); err != nil {
		t.Fatal(err)
	}
	w.until("reconnecting", func(s api.Session) bool {
		return s.State == api.SessionReconnecting && s.Local == before.Local
	})
	if err := w.cluster.Refuse(false); err != nil {
		t.Fatal(err)
	}
	w.until("ready", ready)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) // it waited, as after a lost connection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page answers %d", res.StatusCode)
	}
}
