package api

import "time"

// Run is one job in the history, written down when it was over.
type Run struct {
	Session string    `json:"session"`
	Host    string    `json:"host"`
	Job     Job       `json:"job"`
	Why     string    `json:"why,omitempty"` // it ended, in words
	Noted   time.Time `json:"noted"`         // when we learnt of the end
}

// Waited is how long the job was queued, where that is known.
func (r *Run) Waited() (time.Duration, bool) { return span(r.Job.Submitted, r.Job.Start) }

// Ran is how long the job ran, where that is known.
func (r *Run) Ran() (time.Duration, bool) { return span(r.Job.Start, r.Job.End) }

func span(from, to time.Time) (time.Duration, bool) {
	if from.IsZero() || to.Before(from) {
		return 0, false
	}
	return to.Sub(from), true
}
