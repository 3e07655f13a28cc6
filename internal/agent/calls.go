package agent

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/submit"
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

func handleOpen(s *session.Session, r *http.Request, _ api.None) (api.OpenResponse, error) {
	return s.Page(r.Context(), r.PathValue("endpoint"))
}

func handleClientPage(s *session.Session, _ *http.Request, req api.ClientPageRequest) (api.OpenResponse, error) {
	return session.ClientPage(s, req.New)
}

// handleAttach brings up a session for a job that was started by hand, or returns the
// jobs to choose from.
func (a *server) handleAttach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	a.Hosts.UseEnv(req.Env)
	if err := a.Hosts.Connected(ctx, req.Host); err != nil {
		return api.AttachResponse{}, err
	}
	job, choice, err := a.chooseJob(ctx, req)
	if err != nil || choice != nil {
		return api.AttachResponse{Candidates: choice}, err
	}
	if job.Name == configs.RunName {
		return api.AttachResponse{}, api.Errorf(api.CodeUsage, "job %s is of `tunctl run`, and is not kept as a session", job.ID).
			WithHint("`tunctl logs %s %s` shows its output; `tunctl attach %s NODE:PORT` opens a page that it serves", req.Host, job.Ref(), req.Host)
	}
	for _, s := range a.Sessions.Live() {
		if known := s.Facts(); s.Config().App == configs.ShellApp && s.Host() == req.Host && facts.IsLive(known.Job()) && known.Job().Ref() == job.Ref() {
			return api.AttachResponse{}, api.Errorf(api.CodeUsage, "job %s is that of session %s, and has no page", job.ID, s.Name).
				WithHint("`tunctl up %s` finds it, `tunctl ssh %s` opens a shell inside it", s.Name, s.Name)
		}
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
			WithHint("%s", configs.ForwardHint)
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

// handleExtend gives a session's job more time, of its limit or without use.
func (a *server) handleExtend(ctx context.Context, req api.ExtendRequest) (api.JobResponse, error) {
	if req.Seconds <= 0 && !req.Idle {
		return api.JobResponse{}, api.Errorf(api.CodeUsage, "the extension must be greater than zero")
	}
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.JobResponse{}, err
	}
	job, err := s.Extend(ctx, req)
	return api.JobResponse{Job: job}, err
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

// scriptTimeout is how long the user waits for what a script has, which is only shown to them.
const scriptTimeout = 3 * time.Second

// handleChoices says what may be chosen for a session's next run, and if the request wants it, what
// the session's own script has. Without that, it queries no host.
func (a *server) handleChoices(s *session.Session, r *http.Request, _ url.Values) (api.ChoicesResponse, error) {
	s.Reconfigure()
	source := a.Source(s.Config())
	options := source.Options()
	if jobs, err := a.Hosts.ConnectedWatcher(r.Context(), source.Session.Host); err == nil && r.URL.Query().Get("script") != "" {
		ctx, cancel := context.WithTimeout(r.Context(), scriptTimeout)
		defer cancel()
		if err := source.ReadScript(ctx, jobs, options); err != nil {
			a.Log.Debug("cannot read a job script", "session", s.Name, "err", err)
		}
	}
	return api.ChoicesResponse{Options: options, Recent: append([]api.Choices{}, s.RecentChoices()...)}, nil
}

// maxPreviews is how many variants of a job one request may ask about: each is a query.
const maxPreviews = 4

// handlePreview streams what an up would submit, once for each set of choices, as soon as it
// is known. Nothing is submitted.
func (a *server) handlePreview(w http.ResponseWriter, r *http.Request) {
	var req api.PreviewRequest
	if err := localapi.Decode(w, r, &req); err != nil {
		localapi.Fail(w, err)
		return
	}
	host, plans, err := a.previewPlans(r.Context(), req)
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	out := localapi.NewLines(w)
	for _, plan := range plans {
		v, err := plan.Preview(r.Context(), a.Hosts.Watcher(host), a.Store, a.History, !req.NoStart)
		if err != nil && !out.Sent() {
			localapi.Fail(w, hosts.SchedulerError(host, err))
			return
		}
		if err != nil { // the others may still be known
			v = api.Preview{With: plan.With, Why: api.Redact(err.Error())}
		}
		if out.Send(v) != nil {
			return
		}
	}
}

// previewPlans checks a request about a session's next job. The host must be connected.
func (a *server) previewPlans(ctx context.Context, req api.PreviewRequest) (host string, plans []submit.Plan, err error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return "", nil, err
	}
	s.Reconfigure()
	cfg, variants := s.Config(), req.With
	switch {
	case cfg.Submit == "":
		return "", nil, api.Errorf(api.CodeUsage, "tunctl submits no job for session %s", s.Name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, a.Sessions.Section(s.Name))
	case len(variants) > maxPreviews:
		return "", nil, api.Errorf(api.CodeUsage, "%d variants are too many: each is a question to the scheduler, and at most %d are asked at a time",
			len(variants), maxPreviews).WithHint("give fewer values")
	case len(variants) == 0:
		variants = []api.Choices{nil}
	}
	source := a.Source(cfg)
	for _, with := range variants { // before anything is asked
		plan, err := source.Plan(with)
		if err != nil {
			return "", nil, err
		}
		plans = append(plans, plan)
	}
	return cfg.Host, plans, a.Hosts.Connected(ctx, cfg.Host)
}

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
		assistantName(req.Assistant), s.Name, api.HostLabel(s.Host()), submit.HoursText(left), submit.HoursText(limit)), downs)
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
		return api.DownResponse{Sessions: []api.Session{now}}, nil
	}
	what := ". Its job keeps running and is charged."
	if req.Cancel {
		what = " AND END ITS JOBS: " + cmp.Or(now.LiveText(), "none is known now") + ". What they have not saved is lost."
	}
	err = a.prompts.Approve(ctx, localapi.Client(ctx), s.Host(), fmt.Sprintf("%s asks to disconnect session %s on %s%s",
		assistantName(req.Assistant), s.Name, api.HostLabel(s.Host()), what), s.Downs())
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
