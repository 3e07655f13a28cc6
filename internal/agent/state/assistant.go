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

// assistantDay is how long a job of an assistant counts.
const assistantDay = 24 * time.Hour

// AssistantHours are the node-hours of the jobs that assistants started within a day before
// now.
func (s *Store) AssistantHours(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hoursOf(s.assistantJobsLocked(now, ""))
}

// assistantJobsLocked are the jobs that count, but for the one with this tag.
func (s *Store) assistantJobsLocked(now time.Time, except string) []AssistantJob {
	now = now.Round(0) // of the wall clock: a day also passes while the computer sleeps
	return slices.DeleteFunc(slices.Clone(s.data.Assistants), func(j AssistantJob) bool {
		return j.Tag == except || now.Sub(j.At) >= assistantDay
	})
}

func hoursOf(jobs []AssistantJob) (sum float64) {
	for _, j := range jobs {
		sum += j.NodeHours
	}
	return sum
}

// AddAssistantJob records a job before an assistant's session submits it, and forgets those
// of earlier days. If it does not fit into limit with the others, nothing is recorded. It
// returns how much was left before it. A submission that is repeated counts once.
func (s *Store) AddAssistantJob(job AssistantJob, limit float64) (left float64, fits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := s.assistantJobsLocked(job.At, job.Tag)
	if left = limit - hoursOf(jobs); job.NodeHours > left {
		return left, false, nil
	}
	jobs = append(jobs, job)
	s.data.Assistants = jobs
	return left, true, s.writeLocked()
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
