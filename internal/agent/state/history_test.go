package state

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
	h := NewHistory(filepath.Join(t.TempDir(), "history.jsonl"))
	const jobs = 300
	for i := range jobs {
		err := h.Add(api.Run{Session: "jupyter", Job: api.Job{ID: fmt.Sprint(i), Name: strings.Repeat("x", 2000)}})
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
	runs, err := h.Runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) < 50 || runs[len(runs)-1].Job.ID != fmt.Sprint(jobs-1) {
		t.Errorf("%d runs, the last %+v", len(runs), runs[len(runs)-1])
	}
}

func TestHistory(t *testing.T) {
	t.Run("a run is added once", func(t *testing.T) {
		h := NewHistory(filepath.Join(t.TempDir(), "history.jsonl"))
		run := api.Run{Session: "jupyter", Host: "hpc", Job: api.Job{ID: "7", Submitted: time.Unix(1794837600, 0)}}
		again := run
		again.Noted = time.Unix(1794841200, 0)
		later := run
		later.Job.Submitted = run.Job.Submitted.Add(time.Hour) // its number is another job's
		for _, r := range []api.Run{run, again, later} {
			if err := h.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		if runs, err := h.Runs(); err != nil || len(runs) != 2 {
			t.Errorf("%+v, %v", runs, err)
		}
	})
}

func TestAnUnfinishedLineCostsOnlyItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	text := `{"session":"a","host":"h","job":{"id":"1","state":"timeout"},"noted":"2026-03-02T13:00:00Z"}` + "\n" + `{"session":"b","ho`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := NewHistory(path)
	for _, name := range []string{"c", "d"} {
		if err := h.Add(api.Run{Session: name}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := h.Runs()
	if err != nil || len(runs) != 3 || runs[1].Session != "c" || runs[2].Session != "d" {
		t.Errorf("runs %+v, err %v", runs, err)
	}
	if none, err := NewHistory(filepath.Join(t.TempDir(), "none")).Runs(); err != nil || none != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
}

func TestEarlierWaitsAreThoseOfJobsLikeThisOne(t *testing.T) {
	begin := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	run := func(session, host, name string, waited time.Duration) api.Run {
		return api.Run{Session: session, Host: host, Job: api.Job{Name: name, Submitted: begin, Start: begin.Add(waited)}}
	}
	many := []api.Run{run("nb", "narval", "lab", 9*time.Hour)}
	for i := range waitsCounted {
		many = append(many, run("nb", "narval", "lab", time.Duration(2+i)*time.Minute))
	}
	for name, tt := range map[string]struct {
		runs []api.Run
		want string
	}{
		"none": {nil, ""},
		"others only": {[]api.Run{
			run("nb", "fir", "lab", time.Hour), run("other", "narval", "train", time.Hour),
			{Session: "nb", Host: "narval", Job: api.Job{Submitted: begin}},
		}, ""},
		"one":            {[]api.Run{run("nb", "narval", "", 3*time.Minute)}, "an earlier job like this waited 3 min"},
		"the same name":  {[]api.Run{run("attached", "narval", "lab", 26*time.Hour)}, "an earlier job like this waited 1 d 2 h 00 min"},
		"all alike":      {[]api.Run{run("nb", "narval", "lab", time.Second), run("nb", "narval", "lab", time.Minute/2)}, "earlier jobs like this waited less than 1 min (2 runs)"},
		"hardly":         {[]api.Run{run("nb", "narval", "lab", time.Second), run("nb", "narval", "lab", time.Minute)}, "earlier jobs like this waited up to 1 min (2 runs)"},
		"the newest ten": {many, "earlier jobs like this waited 2 to 11 min (10 runs)"},
		"hours":          {[]api.Run{run("nb", "narval", "lab", 2*time.Minute), run("nb", "narval", "lab", 3*time.Hour+10*time.Minute)}, "earlier jobs like this waited 2 min to 3 h 00 min (2 runs)"},
		"days":           {[]api.Run{run("nb", "narval", "lab", 72*time.Hour)}, "an earlier job like this waited 3 d 0 h 00 min"},
	} {
		if got := earlierWaits(tt.runs, "narval", "nb", "lab"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
