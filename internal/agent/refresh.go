package agent

import (
	"context"
	"reflect"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// catchUp is how long sessions may take to act on what their scheduler just said.
const catchUp = 5 * time.Second

// handleRefresh asks the schedulers of connected hosts now, and returns the status
// once the sessions have taken the answers in. A scheduler that does not answer says
// so in its sessions' causes.
func (a *Agent) handleRefresh(ctx context.Context, req api.RefreshRequest) (api.Status, error) {
	if req.Session != "" {
		if _, err := a.session(req.Session); err != nil {
			return api.Status{}, err
		}
	}
	news := a.hub.subscribe(api.AnswersNone)
	defer a.hub.unsubscribe(news)
	var asking sync.WaitGroup
	asked := map[string]bool{}
	for _, s := range a.live() {
		host := s.host()
		if req.Session != "" && s.name != req.Session || asked[host] || a.pool.Host(host).Status().State != api.HostUp {
			continue
		}
		asked[host] = true
		asking.Go(func() {
			if err := a.jobWatcher(host).Refresh(ctx); err != nil {
				a.log.Debug("refresh", "host", host, "err", err)
			}
		})
	}
	asking.Wait()
	a.awaitCaughtUp(ctx, news)
	return a.Status(), nil
}

// awaitCaughtUp waits until every session has heard of its job what there is to hear.
func (a *Agent) awaitCaughtUp(ctx context.Context, news *subscriber) {
	for _, s := range a.live() {
		a.await(ctx, news, s.caughtUp)
	}
}

// await waits, at every event, until done; not for long.
func (a *Agent) await(ctx context.Context, news *subscriber, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for !done() {
		select {
		case _, ok := <-news.events:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// watching notes where news of the session's job come from.
func (s *session) setWatch(w *jobwatch.Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = w
}

// caughtUp reports whether the session knows of its job what the scheduler last said.
func (s *session) caughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil || s.watch == nil || s.facts.job == nil {
		return true
	}
	heard := s.watch.Job()
	return heard.ID != s.facts.job.ID || heard.State == api.JobUnknown ||
		!heard.State.Ended() && reflect.DeepEqual(heard, *s.facts.job)
}

// jobReported ends the permission to submit if the scheduler reports a live job: a
// person who asked for one while its state was unknown has it. If its server is gone that
// proves nothing: the scheduler may have been queried before the job ended.
func (s *session) jobReported(job api.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := !job.State.Ended() && job.State != api.JobUnknown && job.State != api.JobCompleting
	if live && !s.facts.lostServer() {
		s.usePermitLocked()
	}
}
