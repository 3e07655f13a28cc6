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
	w.rememberedAs(api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()})
	w.start()
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	w.until("with the job it had", func(s api.Session) bool { return s.Job != nil && s.Job.ID == "9999" })
	if n := len(w.cluster.Jobs()); n != submitted {
		t.Errorf("%d jobs were submitted, %d before", n, submitted)
	}
}

// rememberedAs rewrites what the agent remembers of its session's job.
func (w *world) rememberedAs(job api.Job) {
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
	if data, err = json.Marshal(state); err != nil {
		w.t.Fatal(err)
	}
	w.write(file, string(data))
}
