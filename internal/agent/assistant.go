package agent

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// handleAssistantUp brings a session up if the user agrees. A job that it needs must fit
// into what assistants may start in a day.
func (a *server) handleAssistantUp(ctx context.Context, req api.AssistantRequest) (api.UpResponse, error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.UpResponse{}, err
	}
	downs := s.Downs() // before the user is asked, which takes time
	limit := a.Settings.Config().MCP.NodeHours
	if limit == 0 {
		return api.UpResponse{}, api.Errorf(api.CodeConfig, "assistants may not start sessions").
			WithHint("the person can allow it: set node_hours = 8, or another number, in [mcp] of the config (`tunctl config edit`)")
	}
	left := limit - a.Store.AssistantHours(time.Now())
	if err := a.checkAssistantHours(ctx, s, left, limit); err != nil {
		return api.UpResponse{}, err
	}
	err = a.prompts.Approve(ctx, localapi.Client(ctx), s.Host(), fmt.Sprintf("%s asks to start session %s on %s. If it needs a new job, that may ask for %s node-hours: assistants may start %s a day.",
		assistantName(req.Assistant), s.Name, api.HostLabel(s.Host()), submit.HoursText(left), submit.HoursText(limit)))
	if err != nil {
		return api.UpResponse{}, err
	}
	a.Log.Info("a person lets an assistant start a session", "session", s.Name, "assistant", assistantName(req.Assistant))
	return a.Sessions.UpSince(ctx, s, downs, api.UpRequest{Session: req.Session, Waiter: submit.Assistant, Env: req.Env})
}

// handleAssistantDown takes a session down if the user agrees.
func (a *server) handleAssistantDown(ctx context.Context, req api.AssistantRequest) (api.DownResponse, error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.DownResponse{}, err
	}
	now := s.Status()
	if now.State == api.SessionDown && (!req.Cancel || !s.Saved().Submissions.AnyLive()) { // there is nothing to allow
		return a.handleDown(ctx, api.DownRequest{Session: req.Session, Cancel: req.Cancel})
	}
	what := ". Its job keeps running and is charged."
	if req.Cancel {
		what = " AND END ITS JOBS: " + cmp.Or(now.LiveText(), "none is known now") + ". What they have not saved is lost."
	}
	err = a.prompts.Approve(ctx, localapi.Client(ctx), s.Host(), fmt.Sprintf("%s asks to disconnect session %s on %s%s",
		assistantName(req.Assistant), s.Name, api.HostLabel(s.Host()), what))
	if err != nil {
		return api.DownResponse{}, err
	}
	a.Log.Info("a person lets an assistant take a session down", "session", s.Name, "cancel", req.Cancel, "assistant", assistantName(req.Assistant))
	return a.handleDown(ctx, api.DownRequest{Session: req.Session, Cancel: req.Cancel})
}

// assistantName is how an assistant calls itself, as part of a sentence: a name that is no
// proof.
func assistantName(name string) string {
	name = api.NewRemoteText(name).String()
	if runes := []rune(name); len(runes) > 40 {
		name = string(runes[:40]) + "…"
	}
	return "The assistant that calls itself " + strconv.Quote(name)
}

// checkAssistantHours refuses a job that is too large before the user is asked, if its size can
// be read now. Else chargeAssistant does it before the submission.
func (a *server) checkAssistantHours(ctx context.Context, s *session.Session, left, limit float64) error {
	if s.Status().Job != nil || a.Hosts.Pool.Host(s.Host()).Status().State != api.HostUp {
		return nil
	}
	known, _ := a.sizes.Load(s.Name)
	size, _ := known.(jobSize)
	if time.Since(size.at) >= sizeKept {
		size.at = time.Now()
		size.hours, size.err = a.readSize(ctx, s)
		a.sizes.Store(s.Name, size)
	}
	if size.err == nil && size.hours > left {
		return submit.TooManyHours(size.hours, left, limit, s.Name)
	}
	return size.err
}

// jobSize are the node-hours of a session's job, or why they cannot be read. To read them costs the login
// node a command, and an assistant may ask in a loop.
type jobSize struct {
	hours float64
	err   error
	at    time.Time
}

// sizeKept is how long the size of a job is not read again.
const sizeKept = time.Minute

// readSize reads the node-hours of a session's job; 0 if there is an error that the attempt says.
func (a *server) readSize(ctx context.Context, s *session.Session) (float64, error) {
	host, plans, err := a.previewPlans(ctx, api.PreviewRequest{Session: s.Name})
	if err != nil {
		return 0, nil //nolint:nilerr // the attempt says it
	}
	jobs := a.Hosts.Watcher(host)
	sub, err := plans[0].Order(ctx, jobs, "preview")
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	return plans[0].NodeHours(ctx, jobs, sub)
}
