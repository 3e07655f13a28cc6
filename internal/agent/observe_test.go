package agent_test

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

func TestAnAnswerUpdatesASessionThatIsDown(t *testing.T) {
	for name, restarted := range map[string]bool{"since its down": false, "after a restart of the agent": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			job := w.up().Job
			if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
				t.Fatal(err)
			}
			if restarted {
				w.stop()
				w.start()
				if _, err := w.client.Login(t.Context(), "practice"); err != nil {
					t.Fatal(err)
				}
				w.untilHost("practice", "up", func(h api.Host) bool { return h.State == api.HostUp })
			}
			if s := w.session(); s.Job == nil || s.Job.ID != job.ID || !strings.Contains(s.Cause, "job "+job.ID+" was last seen running at ") {
				t.Fatalf("before: %q, %+v", s.Cause, s.Job)
			}
			if err := w.cluster.KillJob(job.ID); err != nil { // by another than tunctl
				t.Fatal(err)
			}
			if _, err := w.client.Jobs(t.Context(), "practice", false); err != nil {
				t.Fatal(err)
			}
			w.until("without a job", func(s api.Session) bool { return s.Job == nil && s.Cause == "" })
			runs, err := state.NewHistory(w.paths.History()).Runs()
			if err != nil || len(runs) != 1 || runs[0].Job.ID != job.ID || !runs[0].Job.State.Ended() {
				t.Errorf("the history has %+v, %v", runs, err)
			}
		})
	}
}

func TestARefreshUpdatesASessionThatIsDown(t *testing.T) {
	w := newWorld(t)
	w.up()
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.KillJob(w.session().Job.ID); err != nil {
		t.Fatal(err)
	}
	for asked := time.Now(); ; { // an answer of just before is used again
		st, err := w.client.Refresh(t.Context(), "jupyter")
		if err != nil {
			t.Fatal(err)
		}
		s, _ := st.Session("jupyter")
		if s.Job == nil {
			return
		}
		if time.Since(asked) > time.Minute {
			t.Fatalf("after refreshes: %q, %+v", s.Cause, s.Job)
		}
	}
}
