package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestTheHistoryStaysSmallAndKeepsTheNewest(t *testing.T) {
	h := &history{path: filepath.Join(t.TempDir(), "history.jsonl")}
	const jobs = 4000
	for i := range jobs {
		err := h.add(api.Run{Session: "jupyter", Job: api.Job{ID: fmt.Sprint(i), Name: strings.Repeat("x", 200)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(h.path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxHistory {
		t.Errorf("the file has %d bytes", info.Size())
	}
	runs, err := History(h.path)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) < 500 || runs[len(runs)-1].Job.ID != fmt.Sprint(jobs-1) {
		t.Errorf("%d runs, the last %+v", len(runs), runs[len(runs)-1])
	}
}

func TestAnUnfinishedLineCostsOnlyItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	text := `{"session":"a","host":"h","job":{"id":"1","state":"timeout"},"noted":"2026-03-02T13:00:00Z"}` + "\n" + `{"session":"b","ho` + "\n" +
		`{"session":"c","host":"h","job":{"id":"3","state":"failed"},"noted":"2026-03-02T14:00:00Z"}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := History(path)
	if err != nil || len(runs) != 2 || runs[1].Session != "c" {
		t.Errorf("runs %+v, err %v", runs, err)
	}
	if none, err := History(filepath.Join(t.TempDir(), "none")); err != nil || none != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
}

func TestAJobsEndIsWrittenDownWithoutItsLimit(t *testing.T) {
	s := quietSession(t)
	start := time.Now().Add(-time.Hour)
	s.chronicle(api.Job{ID: "7", State: api.JobCancelled, Submitted: start.Add(-time.Minute), Start: start, End: time.Now().Add(time.Hour), Script: "~/.tunctl/x/y.sh"})
	runs, err := History(s.agent.history.path)
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, err %v", runs, err)
	}
	if ran, ok := runs[0].Ran(); !ok || ran > 61*time.Minute {
		t.Errorf("it ran for %v", ran)
	}
	if waited, ok := runs[0].Waited(); !ok || waited != time.Minute {
		t.Errorf("it waited for %v", waited)
	}
	if runs[0].Job.Script != "" || !strings.Contains(runs[0].Why, "cancelled") {
		t.Errorf("written down: %+v", runs[0])
	}
}
