package state

import (
	"slices"
	"time"
)

// AssistantJob is a job that an assistant started.
type AssistantJob struct {
	Tag       string    `json:"tag"` // of its submission
	At        time.Time `json:"at"`
	NodeHours float64   `json:"nodeHours"` // that it asked for
}

// AssistantDay is how long a job of an assistant counts.
const AssistantDay = 24 * time.Hour

// AssistantHours are the node-hours of the jobs that assistants started within a day before
// now. The submission with this tag, which may be repeated, does not count.
func (s *Store) AssistantHours(now time.Time, except string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum float64
	for _, j := range s.data.Assistants {
		if j.Tag != except && now.Sub(j.At) < AssistantDay {
			sum += j.NodeHours
		}
	}
	return sum
}

// AddAssistantJob records a job before an assistant's session submits it, and forgets those
// of earlier days.
func (s *Store) AddAssistantJob(job AssistantJob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Assistants = append(slices.DeleteFunc(slices.Clone(s.data.Assistants), func(j AssistantJob) bool {
		return j.Tag == job.Tag || job.At.Sub(j.At) >= AssistantDay
	}), job)
	return s.writeLocked()
}

// DropAssistantJob forgets a job that was not submitted for certain.
func (s *Store) DropAssistantJob(tag string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := func(j AssistantJob) bool { return j.Tag == tag }
	if !slices.ContainsFunc(s.data.Assistants, counted) {
		return nil
	}
	s.data.Assistants = slices.DeleteFunc(slices.Clone(s.data.Assistants), counted)
	return s.writeLocked()
}
