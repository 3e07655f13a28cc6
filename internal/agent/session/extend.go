package session

import (
	"context"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/latest"
)

// Extend gives the session's job more time.
func (s *Session) Extend(ctx context.Context, by time.Duration) (api.Job, error) {
	if !s.HasJob() {
		return api.Job{}, OnlyForwards(s.Name)
	}
	job, err := s.Jobs.Extend(ctx, by)
	if err == nil {
		s.update(ctx, job)
	}
	return job, err
}

// update passes a job that was queried apart from the watch to the session, and waits
// until it is shown.
func (s *Session) update(ctx context.Context, job api.Job) {
	events := s.parts.Hub.Subscribe("", api.AnswersNone)
	defer s.parts.Hub.Unsubscribe(events)
	s.acting.Lock() // one offer at a time
	running := s.InProgress()
	if running {
		latest.Offer(s.jobUpdates, job)
	}
	s.acting.Unlock()
	if !running {
		s.Jobs.SetJob(job)
		return
	}
	events.Await(ctx, func() bool {
		known := s.Facts()
		now := known.Job()
		return now == nil || now.End.Equal(job.End)
	})
}
