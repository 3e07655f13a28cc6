package agent

import (
	"context"
	"reflect"
	"sync"
	"time"

	"tunctl/internal/api"
)

// catchUp is how long sessions may take to show what their scheduler just reported.
const catchUp = 5 * time.Second

// handleRefresh queries the schedulers of connected hosts now, and returns the status
// once the sessions show the answers. If a scheduler does not respond, the causes of its
// sessions say so.
func (a *Agent) handleRefresh(ctx context.Context, req api.RefreshRequest) (api.Status, error) {
	if req.Session != "" {
		if _, err := a.session(req.Session); err != nil {
			return api.Status{}, err
		}
	}
	events := a.hub.subscribe("", api.AnswersNone)
	defer a.hub.unsubscribe(events)
	var queries sync.WaitGroup
	queried := map[string]bool{}
	for _, s := range a.live() {
		host := s.host()
		if req.Session != "" && s.name != req.Session || queried[host] || a.pool.Host(host).Status().State != api.HostUp {
			continue
		}
		queried[host] = true
		queries.Go(func() {
			if err := a.jobWatcher(host).Refresh(ctx); err != nil {
				a.log.Debug("refresh", "host", host, "err", err)
			}
		})
	}
	queries.Wait()
	for _, s := range a.live() {
		a.await(ctx, events, s.caughtUp)
	}
	return a.Status(), nil
}

// await checks done at every event until it is true, at most for catchUp.
func (a *Agent) await(ctx context.Context, events *subscriber, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for !done() {
		select {
		case _, ok := <-events.events:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// caughtUp reports whether the session shows its job as the scheduler last reported it.
func (s *session) caughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.observed {
		if x.Job().State.Ended() {
			return false
		}
	}
	if s.attempt == nil || s.watch == nil || s.facts.Job == nil {
		return true
	}
	reported := s.watch.Job()
	reported.Seen = s.facts.Job.Seen
	return reported.ID != s.facts.Job.ID || reported.State == api.JobUnknown ||
		!reported.State.Ended() && reflect.DeepEqual(reported, *s.facts.Job)
}
