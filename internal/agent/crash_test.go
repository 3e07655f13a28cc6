package agent_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
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
	must(w.t, err)
	w.stop()
	w.write(w.paths.StateFile(), string(state))
	must(w.t, w.paths.SetRunning(home.Running{PID: 1, Since: since, Socket: w.paths.Socket}))
	w.start()
}

func readyNotebook(s api.Session) bool { return s.Name == "jupyter" && ready(s) }

func TestCrash(t *testing.T) {
	t.Parallel()
	t.Run("for the third time has the agent wait for the user", func(t *testing.T) {
		w := newWorld(t)
		w.write(w.paths.Config, strings.Replace(twoSessions, "PORT", strconv.Itoa(testport.Free(t)), 1))
		before := w.up()
		must(t, w.upWith(api.UpRequest{Session: "db"}))
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
		if page := w.get(before.Local, nil); !strings.Contains(page, "The agent crashed 3 times") {
			t.Errorf("a browser gets %.300s", page)
		}
		if n := w.cluster.Logins(); n != logins {
			t.Errorf("%d logins by an agent that should not connect", n-logins)
		}

		must(t, w.upWith(api.UpRequest{Session: "db"})) // of another session
		if after := w.until("ready", readyNotebook); after.Local != before.Local || after.Job.ID != before.Job.ID {
			t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
		}
		if st := w.status(); st.Agent.Paused != nil {
			t.Errorf("still paused: %+v", st.Agent.Paused)
		}
		w.hasJobs(1)

		w.stop() // by the user, or by the system at logout
		w.start()
		w.until("ready", readyNotebook)
		w.crash()
		if st := w.status(); st.Agent.Paused != nil {
			t.Errorf("paused by crashes before a clean stop: %+v", st.Agent.Paused)
		}
	})
	t.Run("is none if the computer was switched off", func(t *testing.T) {
		w := newWorld(t)
		w.up()
		for range 3 {
			w.killed(time.Now().AddDate(-20, 0, 0)) // before this computer was started
			w.until("ready", ready)
		}
		if st := w.status(); st.Agent.Paused != nil {
			t.Errorf("paused: %+v", st.Agent.Paused)
		}
	})
	t.Run("for the third time is forgotten at a login", func(t *testing.T) {
		w := newWorld(t)
		w.up()
		for range 3 {
			w.crash()
		}
		w.until("failed", failed)
		w.login("practice")
		w.until("ready", ready)
	})
}
