package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel/failure"
)

const (
	// assistantWaiter is the name under which an assistant's up permits a submission.
	assistantWaiter = "assistant"
	// approvalTime is how long a person has to answer what an assistant asks: assistants do
	// not wait much longer.
	approvalTime = 2 * time.Minute
	// approvalPause is how long nobody is asked again after a question without a yes.
	approvalPause = time.Minute
)

// approvals asks a person about one thing at a time.
type approvals struct {
	mu       sync.Mutex
	asking   bool
	declined time.Time // when a person last did not say yes
}

// begin reports why nobody may be asked now, if so. Else end must follow.
func (q *approvals) begin(now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch wait := q.declined.Add(approvalPause).Sub(now); {
	case q.asking:
		return api.Errorf(api.CodeNotReady, "the person is being asked about another request").
			WithHint("try again when that is answered")
	case wait > 0:
		return api.Errorf(api.CodeNotReady, "the person has just been asked, and did not agree").
			WithHint("ask them in the conversation, and try again in %s at the earliest", api.DurationText(wait.Round(time.Second)))
	}
	q.asking = true
	return nil
}

func (q *approvals) end(declined bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asking = false
	if declined {
		q.declined = now
	}
}

// approve asks a person about something that an assistant wants. The client that asks for it
// cannot answer.
func (a *Agent) approve(ctx context.Context, host, text string) error {
	if err := a.approvals.begin(time.Now()); err != nil {
		return err
	}
	declined := false
	defer func() { a.approvals.end(declined, time.Now()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, approvalTime, api.Errorf(api.CodeTimeout, "the person did not answer within %s",
		api.DurationText(approvalTime)).WithHint("ask them in the conversation, then try again"))
	defer cancel()
	answer, err := a.prompts.Prompt(ctx, api.Prompt{Host: host, Kind: api.PromptApproval, Text: text, Client: clientOf(ctx)}, func() {})
	switch {
	case errors.Is(err, failure.ErrNobody):
		return api.Errorf(api.CodeNeedsPerson, "an assistant may not do this alone, and there is nobody to ask").
			WithHint("the person can start the tray (`tunctl tray`) or run `tunctl mcp approve` in a terminal; then try again")
	case err != nil: // nobody answered, or the assistant asks no longer: no window follows at once
		declined = true
		return err
	case answer.Text != "yes":
		declined = true
		return api.Errorf(api.CodeNeedsPerson, "the person did not allow it").
			WithHint("do not try again unless they ask you to")
	}
	return nil
}

// handleAssistantUp brings a session up if a person agrees. A job that it needs must fit
// into what assistants may start in a day.
func (a *Agent) handleAssistantUp(ctx context.Context, req api.AssistantRequest) (api.UpResponse, error) {
	s, err := a.session(req.Session)
	if err != nil {
		return api.UpResponse{}, err
	}
	limit := a.cfg().MCP.NodeHours
	if limit == 0 {
		return api.UpResponse{}, api.Errorf(api.CodeConfig, "assistants may not start sessions").
			WithHint("the person can allow it: set node_hours = 8, or another number, in [mcp] of the config (`tunctl config edit`)")
	}
	left := limit - a.store.AssistantHours(time.Now())
	err = a.approve(ctx, s.host(), fmt.Sprintf("%s asks to start session %s on %s. If it needs a new job, that may ask for %s node-hours: assistants may start %s a day.",
		assistantName(req.Assistant), s.name, api.HostLabel(s.host()), nodeHoursText(left), nodeHoursText(limit)))
	if err != nil {
		return api.UpResponse{}, err
	}
	a.log.Info("a person lets an assistant start a session", "session", s.name, "assistant", assistantName(req.Assistant))
	return a.up(ctx, api.UpRequest{Session: req.Session, Waiter: assistantWaiter, Env: req.Env})
}

// handleAssistantDown takes a session down if a person agrees.
func (a *Agent) handleAssistantDown(ctx context.Context, req api.AssistantRequest) (api.DownResponse, error) {
	s, err := a.session(req.Session)
	if err != nil {
		return api.DownResponse{}, err
	}
	what := "disconnect session %s on %s. Its job keeps running and is charged."
	if req.Cancel {
		what = "disconnect session %s on %s AND END ITS JOB. What the job has not saved is lost."
	}
	err = a.approve(ctx, s.host(), assistantName(req.Assistant)+" asks to "+fmt.Sprintf(what, s.name, api.HostLabel(s.host())))
	if err != nil {
		return api.DownResponse{}, err
	}
	a.log.Info("a person lets an assistant take a session down", "session", s.name, "cancel", req.Cancel, "assistant", assistantName(req.Assistant))
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

func nodeHoursText(hours float64) string { return strconv.FormatFloat(max(0, hours), 'f', -1, 64) }

// permittedByPerson reports whether a person asked for the job, and not an assistant only.
func (s *session) permittedByPerson() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return false
	}
	now := time.Now()
	for waiter, until := range s.attempt.permit.until {
		if waiter != assistantWaiter && now.Before(until) {
			return true
		}
	}
	return false
}

// chargeAssistant counts the job of an assistant before it is submitted, and refuses it if
// it may take more than is left of the day. A job of several nodes counts for each of them,
// also if it does not use them whole, and an array for each of its jobs.
func (s *session) chargeAssistant(ctx context.Context, jobs *jobwatch.Watcher, sub jobwatch.Submission) error {
	script, err := jobs.Script(ctx, sub)
	if err != nil {
		return err
	}
	size, err := jobs.SizeOf(ctx, sub, script)
	if err != nil {
		return err
	}
	if size.Time <= 0 {
		return api.Errorf(api.CodeSubmit, "nothing was submitted: the job does not say how long it runs, so it cannot be compared with what assistants may start").
			WithHint("set a time limit in the job's script, or start it yourself: `tunctl up %s`", s.name)
	}
	if size.Nodes <= 0 {
		return api.Errorf(api.CodeSubmit, "nothing was submitted: how many nodes the job takes cannot be read from its options, so it cannot be compared with what assistants may start").
			WithHint("say it as a number (--nodes=1), or start it yourself: `tunctl up %s`", s.name)
	}
	hours, limit := size.Time.Hours()*float64(size.Nodes), s.agent.cfg().MCP.NodeHours
	left, fits, err := s.agent.store.AddAssistantJob(state.AssistantJob{Tag: sub.Tag, At: time.Now().Round(0), NodeHours: hours}, limit)
	switch {
	case err != nil:
		return fmt.Errorf("nothing was submitted: %w", err)
	case !fits:
		return api.Errorf(api.CodeSubmit, "nothing was submitted: the job asks for %s node-hours, and of the %s that assistants may start a day %s are left",
			nodeHoursText(hours), nodeHoursText(limit), nodeHoursText(left)).
			WithHint("start it yourself: `tunctl up %s`", s.name)
	}
	return s.record(func(r *state.Session) { r.Assisted = true }, nil)
}
