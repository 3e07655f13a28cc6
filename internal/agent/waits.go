package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// waitsCounted is how many earlier jobs say how long one may wait: what was so long
// ago is no guide.
const waitsCounted = 10

// earlierWaits says how long the session's earlier jobs waited in the host's queue,
// and others there of the same name; empty where none is known.
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
	if minutes, ok := strings.CutSuffix(low, " min"); ok && strings.HasSuffix(high, " min") && !strings.Contains(high, "h") {
		low = minutes
	}
	return fmt.Sprintf("earlier jobs like this waited %s to %s (%d runs)", low, high, len(waits))
}

// waitText rounds a wait to what a person plans by.
func waitText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than 1 min"
	case d > 2*time.Hour:
		d = d.Round(time.Hour)
	}
	return api.DurationText(d)
}

// waitsBefore reads from our own history how long jobs like this one waited.
func (s *session) waitsBefore(job api.Job) string {
	runs, err := History(s.agent.history.path)
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	return earlierWaits(runs, s.host(), s.name, job.Name)
}
