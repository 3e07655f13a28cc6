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
			w.askUntilWithoutJob(func() error {
				_, err := w.client.Jobs(t.Context(), "practice", false)
				return err
			})
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
	w.askUntilWithoutJob(func() error {
		_, err := w.client.Refresh(t.Context(), "jupyter")
		return err
	})
}

// askUntilWithoutJob asks the scheduler until the session has no job: an answer of just before is
// used again.
func (w *world) askUntilWithoutJob(ask func() error) {
	w.t.Helper()
	for asked := time.Now(); ; {
		if err := ask(); err != nil {
			w.t.Fatal(err)
		}
		s := w.session()
		if s.Job == nil && s.Cause == "" {
			return
		}
		if time.Since(asked) > patience {
			w.t.Fatalf("after answers: %q, %+v", s.Cause, s.Job)
		}
	}
}
