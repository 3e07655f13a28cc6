package agent

import (
	"context"
	"reflect"
	"sync"

	"tunctl/internal/api"
)

// handleRefresh queries the schedulers of connected hosts now, and returns the status
// once the sessions show the answers. If a scheduler does not respond, the causes of its
// sessions say so.
func (a *Agent) handleRefresh(ctx context.Context, req api.RefreshRequest) (api.Status, error) {
	if req.Session != "" {
		if _, err := a.session(req.Session); err != nil {
			return api.Status{}, err
		}
	}
	events := a.hub.Subscribe("", api.AnswersNone)
	defer a.hub.Unsubscribe(events)
	var queries sync.WaitGroup
	queried := map[string]bool{}
	for _, s := range a.live() {
		host := s.host()
		if req.Session != "" && s.name != req.Session || queried[host] || a.pool.Host(host).Status().State != api.HostUp {
			continue
		}
		queried[host] = true
		queries.Go(func() {
			if err := a.hosts.Watcher(host).Refresh(ctx); err != nil {
				a.log.Debug("refresh", "host", host, "err", err)
			}
		})
	}
	queries.Wait()
	for _, s := range a.live() {
		events.Await(ctx, s.caughtUp)
	}
	return a.Status(), nil
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
