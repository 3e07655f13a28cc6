package agent_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestAYoungJobThatTheSchedulerDoesNotKnowIsNotSubmittedAgain(t *testing.T) {
	w := newWorld(t)
	w.up()
	submitted := len(w.cluster.Jobs())
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.rememberedAs(api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()}, "")
	w.start()
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	w.until("with the job it had", func(s api.Session) bool { return s.Job != nil && s.Job.ID == "9999" })
	if n := len(w.cluster.Jobs()); n != submitted {
		t.Errorf("%d jobs were submitted, %d before", n, submitted)
	}
}

func TestAYoungJobOfAnotherAccountIsNotTakenForOneHere(t *testing.T) {
	w := newWorld(t)
	w.up()
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.rememberedAs(api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()}, "student@elsewhere.example:22")
	w.start()
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	s := w.until("with a job", func(s api.Session) bool { return s.Job != nil })
	if s.Job.ID == "9999" {
		t.Error("a job of another account was adopted")
	}
}

// rememberedAs rewrites what the agent remembers of its session's job, and of the account
// that it is on where one is given.
func (w *world) rememberedAs(job api.Job, account string) {
	w.t.Helper()
	file := w.paths.StateFile()
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(data, &state); err != nil {
		w.t.Fatal(err)
	}
	session := state["sessions"].(map[string]any)["jupyter"].(map[string]any)
	session["job"], session["tag"] = job, ""
	if account != "" {
		session["account"] = account
	}
	if data, err = json.Marshal(state); err != nil {
		w.t.Fatal(err)
	}
	w.write(file, string(data))
}
