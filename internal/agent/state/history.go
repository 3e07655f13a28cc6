package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
)

// maxHistory is the maximum size of the file, for some thousand jobs. Beyond it the
// older half is removed.
const maxHistory = 512 << 10

// History is the file of the jobs that have ended, one per line.
type History struct {
	path string

	mu sync.Mutex // one writer at a time
}

// NewHistory is the history in a file, which need not exist.
func NewHistory(path string) *History { return &History{path: path} }

// Add appends a run, unless it is there: the last agent may have crashed before it forgot the job.
func (h *History) Add(r api.Run) error {
	same := func(x api.Run) bool {
		return x.Session == r.Session && x.Host == r.Host && x.Job.Ref() == r.Job.Ref() && x.Job.Submitted.Equal(r.Job.Submitted)
	}
	if !r.Job.Submitted.IsZero() {
		if runs, err := h.Runs(); err == nil && slices.ContainsFunc(runs, same) {
			return nil
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	data, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write history: %w", err)
	}
	// A crash or a full disk may have cut off the last line of an older version.
	data = bytes.TrimLeft(fmt.Appendf(bytes.TrimRight(data, "\n"), "\n%s\n", line), "\n")
	if len(data) > maxHistory {
		_, data, _ = bytes.Cut(data[len(data)/2:], []byte{'\n'})
	}
	if err := atomicfile.Write(h.path, data, 0o600); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Runs reads the jobs that have ended, the oldest first. It needs no agent. A line
// that a crash cut short is left out.
func (h *History) Runs() ([]api.Run, error) {
	data, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var runs []api.Run
	for line := range bytes.Lines(data) {
		var r api.Run
		if json.Unmarshal(line, &r) == nil {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// LastJob is the last job of a session on a host that is over; nil if none is known.
func (h *History) LastJob(session, host string) *api.Job {
	runs, _ := h.Runs() // those that can be read
	for _, r := range slices.Backward(runs) {
		if r.Session == session && r.Host == host {
			return &r.Job
		}
	}
	return nil
}

// waitsCounted is how many earlier jobs count: older ones say little about the queue now.
const waitsCounted = 10

// EarlierWaits says how long jobs like this one waited: the session's earlier jobs on
// the host, and others there of the same name. It is empty if none is known.
func (h *History) EarlierWaits(host, session, job string) (string, error) {
	runs, err := h.Runs()
	return earlierWaits(runs, host, session, job), err
}

func earlierWaits(runs []api.Run, host, session, job string) string {
	var waits []time.Duration
	for _, r := range slices.Backward(runs) {
		alike := r.Host == host && (r.Session == session || job != "" && r.Job.Name == job)
		if waited, known := r.Waited(); alike && known && len(waits) < waitsCounted {
			waits = append(waits, waited)
		}
	}
	switch len(waits) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("an earlier job like this waited %s", waitText(waits[0]))
	}
	low, high := waitText(slices.Min(waits)), waitText(slices.Max(waits))
	if low == high {
		return fmt.Sprintf("earlier jobs like this waited %s (%d runs)", low, len(waits))
	}
	if slices.Min(waits) < time.Minute {
		return fmt.Sprintf("earlier jobs like this waited up to %s (%d runs)", high, len(waits))
	}
	if minutes, ok := strings.CutSuffix(low, " min"); ok && strings.HasSuffix(high, " min") && !strings.Contains(high, "h") {
		low = minutes
	}
	return fmt.Sprintf("earlier jobs like this waited %s to %s (%d runs)", low, high, len(waits))
}

// waitText rounds a wait to what the user needs for planning.
func waitText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than 1 min"
	case d > 2*time.Hour:
		d = d.Round(time.Hour)
	}
	return api.DurationText(d)
}

// Summarize sums up runs by week, session and host: the newest week first, in a week by
// session. A job counts in the week in which it ended.
func Summarize(runs []api.Run) []api.WeekSummary {
	type key struct {
		week, session, host string
		unit                api.TimeUnit
	}
	byKey := map[key]*api.WeekSummary{}
	weeks := []api.WeekSummary{}
	for i := range runs {
		r := &runs[i]
		unit, factor := api.JobSeconds, int64(1)
		if r.GPUs > 0 {
			unit, factor = api.GPUSeconds, int64(r.GPUs)
		}
		if r.Nodes > 0 {
			unit, factor = api.NodeSeconds, int64(r.Nodes)
		}
		k := key{weekOf(r), r.Session, r.Host, unit}
		sum := byKey[k]
		if sum == nil {
			sum = &api.WeekSummary{Week: k.week, Session: k.session, Host: k.host, Unit: unit}
			byKey[k] = sum
		}
		ran, _ := r.Ran()
		waited, _ := r.Waited()
		sum.Jobs++
		sum.Asked += r.Asked * factor
		sum.Used += seconds(ran) * factor
		switch r.Job.State {
		case api.JobFinished:
			sum.Finished += seconds(ran) * factor
		case api.JobFailed, api.JobOOM, api.JobNodeFail:
			sum.Failed += seconds(ran) * factor
		}
		sum.Idle += min(r.Idle, seconds(ran)) * factor
		sum.Waited += seconds(waited)
	}
	for _, sum := range byKey {
		weeks = append(weeks, *sum)
	}
	slices.SortFunc(weeks, func(a, b api.WeekSummary) int {
		return cmp.Or(cmp.Compare(b.Week, a.Week), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Unit, b.Unit))
	})
	return weeks
}

func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// weekOf is the Monday of the week in which a run ended.
func weekOf(r *api.Run) string {
	end := cmp.Or(r.Job.End, r.Noted).Local()
	sinceMonday := (int(end.Weekday()) + 6) % 7
	return end.AddDate(0, 0, -sinceMonday).Format(time.DateOnly)
}
