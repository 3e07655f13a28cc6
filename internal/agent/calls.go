package agent

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// handleDown takes one session down, or all.
func (a *server) handleDown(ctx context.Context, req api.DownRequest) (api.DownResponse, error) {
	a.Hosts.UseEnv(req.Env)
	targets := a.Sessions.Live()
	if !req.All {
		s, err := a.Sessions.Find(req.Session)
		if err != nil {
			return api.DownResponse{}, err
		}
		targets = []*session.Session{s}
	}
	done := api.DownResponse{Sessions: []api.Session{}}
	for _, s := range targets {
		after, err := s.Stop(ctx, req.Cancel)
		if err != nil {
			return done, err
		}
		after.Forgotten = a.Sessions.DropUnconfigured(s)
		done.Sessions = append(done.Sessions, after)
	}
	return done, nil
}

func (a *server) handleOpen(r *http.Request, _ api.None) (api.OpenResponse, error) {
	s, err := a.Sessions.Find(r.PathValue("name"))
	if err != nil {
		return api.OpenResponse{}, err
	}
	return s.Page(r.Context(), r.PathValue("endpoint"))
}

// handleAttach brings up a session for a job that was started by hand, or returns the
// jobs to choose from.
func (a *server) handleAttach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	a.Hosts.UseEnv(req.Env)
	if err := a.Hosts.AllowedAndConnected(ctx, req.Host); err != nil {
		return api.AttachResponse{}, err
	}
	job, choice, err := a.chooseJob(ctx, req)
	if err != nil || choice != nil {
		return api.AttachResponse{Candidates: choice}, err
	}
	s, err := a.Sessions.Attach(req, job)
	if err != nil {
		return api.AttachResponse{}, err
	}
	up, err := s.StartFor(localapi.Client(ctx))
	return api.AttachResponse{Session: &up.Session, At: up.At}, err
}

// chooseJob finds the job of a request: the named one, the only one that runs, or the
// only one that serves something. Otherwise it returns those to choose from.
func (a *server) chooseJob(ctx context.Context, req api.AttachRequest) (api.Job, []api.Candidate, error) {
	if req.Job != "" {
		job, err := a.liveJob(ctx, req.Host, req.Job)
		return job, nil, err
	}
	running, err := a.Hosts.Running(ctx, req.Host)
	if err != nil {
		return api.Job{}, nil, err
	}
	switch len(running) {
	case 0:
		return api.Job{}, nil, api.Errorf(api.CodeFailed, "no job of yours is running on %s", req.Host).
			WithHint("`tunctl attach %s JOB` waits for one that is queued", req.Host)
	case 1:
		job, err := a.liveJob(ctx, req.Host, running[0].Ref())
		return job, nil, err
	}
	candidates := a.Hosts.Inspect(ctx, req.Host, running)
	serving := slices.DeleteFunc(slices.Clone(candidates), func(c api.Candidate) bool { return c.App == "" })
	if len(serving) == 1 {
		return serving[0].Job, nil, nil
	}
	return api.Job{}, candidates, nil
}

// liveJob finds a job by its ID, if it waits or runs.
func (a *server) liveJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.Hosts.Job(ctx, host, id)
	if err == nil && job.State.Ended() {
		err = api.Errorf(api.CodeJobEnded, "%s", facts.EndText(&job, time.Now())).
			WithHint("`tunctl jobs %s` lists queued and running jobs", host)
	}
	return job, err
}

// handleForward brings up forwards that are in no config: those through a host as a
// separate session, those of a session beside its own.
func (a *server) handleForward(ctx context.Context, req api.ForwardRequest) (api.ForwardResponse, error) {
	a.Hosts.UseEnv(req.Env)
	specs, err := adhocSpecs(req)
	switch {
	case err != nil:
		return api.ForwardResponse{}, err
	case req.Session != "":
		return a.forwardSession(req, specs)
	}
	if err := a.Hosts.Allowed(ctx, req.Host); err != nil {
		return api.ForwardResponse{}, err
	}
	s, err := a.Sessions.Adhoc(req.Host, specs)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	up, err := s.StartFor(localapi.Client(ctx))
	return api.ForwardResponse{UpResponse: up, Forwards: []api.Forward{}}, err
}

// forwardSession adds forwards to those of a session, or removes added ones.
func (a *server) forwardSession(req api.ForwardRequest, specs []configs.ForwardSpec) (api.ForwardResponse, error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	list, err := s.ChangeForwards(specs, req.Remove)
	if list == nil {
		return api.ForwardResponse{}, err
	}
	now, at := s.Status(), time.Now()
	a.Hub.Publish(api.Event{Type: api.EventSession, Time: at, Session: &now})
	return api.ForwardResponse{UpResponse: api.UpResponse{Session: now, At: at}, Forwards: list}, err
}

// adhocSpecs parses the forwards of a request. Bind applies to those without an address.
func adhocSpecs(req api.ForwardRequest) ([]configs.ForwardSpec, error) {
	if len(req.Specs) == 0 {
		return nil, api.Errorf(api.CodeUsage, "no forward given").
			WithHint(`write "6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`)
	}
	specs := make([]configs.ForwardSpec, len(req.Specs))
	for i, text := range req.Specs {
		spec, err := configs.ParseForward(text)
		if err != nil {
			return nil, err
		}
		if host, port, err := net.SplitHostPort(spec.Listen); err == nil && req.Bind != "" && host == "127.0.0.1" && spec.Kind != api.ForwardRemote {
			spec.Listen = net.JoinHostPort(strings.TrimPrefix(req.Bind, "*"), port)
		}
		specs[i] = spec
	}
	return specs, nil
}

// handleExtend gives a session's job more time.
func (a *server) handleExtend(ctx context.Context, req api.ExtendRequest) (api.ExtendResponse, error) {
	if req.Seconds <= 0 {
		return api.ExtendResponse{}, api.Errorf(api.CodeUsage, "the extension must be greater than zero")
	}
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.ExtendResponse{}, err
	}
	job, err := s.Extend(ctx, time.Duration(req.Seconds)*time.Second)
	return api.ExtendResponse{Job: job}, err
}

// handleRefresh queries the schedulers of connected hosts now, and returns the status
// once the sessions show the answers. If a scheduler does not respond, the causes of its
// sessions say so.
func (a *server) handleRefresh(ctx context.Context, req api.RefreshRequest) (api.Status, error) {
	if req.Session != "" {
		if _, err := a.Sessions.Find(req.Session); err != nil {
			return api.Status{}, err
		}
	}
	events := a.Hub.Subscribe("", api.AnswersNone)
	defer a.Hub.Unsubscribe(events)
	var queries sync.WaitGroup
	queried := map[string]bool{}
	for _, s := range a.Sessions.Live() {
		host := s.Host()
		if req.Session != "" && s.Name != req.Session || queried[host] || a.Hosts.Pool.Host(host).Status().State != api.HostUp {
			continue
		}
		queried[host] = true
		queries.Go(func() {
			if err := a.Hosts.Watcher(host).Refresh(ctx); err != nil {
				a.Log.Debug("refresh", "host", host, "err", err)
			}
		})
	}
	queries.Wait()
	for _, s := range a.Sessions.Live() {
		events.Await(ctx, s.CaughtUp)
	}
	return a.status(), nil
}
