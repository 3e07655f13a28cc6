package agent

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// scriptTimeout is how long a person waits for what a script has, which is only shown to them.
const scriptTimeout = 3 * time.Second

// handleChoices says what may be chosen for a session's next run, and if the request wants it, what
// the session's own script has. Without that, it queries no host.
func (a *server) handleChoices(r *http.Request, _ url.Values) (api.ChoicesResponse, error) {
	s, err := a.sessions.find(r.PathValue("name"))
	if err != nil {
		return api.ChoicesResponse{}, err
	}
	s.reconfigure()
	source := a.source(s.Config())
	options := source.Options()
	if jobs, err := a.hosts.ConnectedWatcher(source.Session.Host); err == nil && r.URL.Query().Get("script") != "" {
		ctx, cancel := context.WithTimeout(r.Context(), scriptTimeout)
		defer cancel()
		if err := source.ReadScript(ctx, jobs, options); err != nil {
			a.log.Debug("cannot read a job script", "session", s.name, "err", err)
		}
	}
	return api.ChoicesResponse{Options: options, Recent: append([]api.Choices{}, s.recentChoices()...)}, nil
}

// recentChoices are those of a session's earlier runs. A second session shares them with the
// one of the config.
func (s *session) recentChoices() []api.Choices {
	return s.agent.store.Session(cmp.Or(s.of, s.name)).Recent
}

// source is what a session's job is made from.
func (a *shared) source(cfg configs.Session) *submit.Source {
	return &submit.Source{
		Session: cfg, Section: a.sessions.section(cfg.Name), Host: a.settings.Config().Host(cfg.Host), Sites: a.settings.Sites(),
		Scheduler: a.hosts.KnownScheduler(cfg.Host), Found: a.store.Found(cfg.Host), Folder: filepath.Dir(a.settings.Config().Path), Log: a.log,
	}
}

// requestedPlan is the plan of a request with choices, checked as far as the site is known; zero if
// it has none.
func (a *server) requestedPlan(s *session, req api.UpRequest) (submit.Plan, error) {
	if len(req.With) == 0 && !req.Again {
		return submit.Plan{}, nil
	}
	cfg := s.Config()
	if cfg.Submit == "" {
		return submit.Plan{}, api.Errorf(api.CodeUsage, "nothing can be chosen for session %s: tunctl submits no job for it", s.name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, a.sessions.section(s.name))
	}
	with := api.Choices{}
	if req.Again {
		recent := s.recentChoices()
		if len(recent) == 0 {
			return submit.Plan{}, api.Errorf(api.CodeUsage, "session %s has no earlier choices to repeat", s.name).
				WithHint("`tunctl up %s --with NAME=VALUE` makes some", s.name)
		}
		maps.Copy(with, recent[0])
	}
	maps.Copy(with, req.With)
	return a.source(cfg).Plan(with)
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
		v, err := plan.Preview(r.Context(), a.hosts.Watcher(host), a.store, a.history)
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
	s, err := a.sessions.find(req.Session)
	if err != nil {
		return "", nil, err
	}
	s.reconfigure()
	cfg, variants := s.Config(), req.With
	switch {
	case cfg.Submit == "":
		return "", nil, api.Errorf(api.CodeUsage, "tunctl submits no job for session %s", s.name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, a.sessions.section(s.name))
	case len(variants) > maxPreviews:
		return "", nil, api.Errorf(api.CodeUsage, "%d variants are too many: each is a question to the scheduler, and at most %d are asked at a time",
			len(variants), maxPreviews).WithHint("give fewer values")
	case len(variants) == 0:
		variants = []api.Choices{nil}
	}
	source := a.source(cfg)
	for _, with := range variants { // before anything is asked
		plan, err := source.Plan(with)
		if err != nil {
			return "", nil, err
		}
		plans = append(plans, plan)
	}
	return cfg.Host, plans, a.hosts.AllowedAndConnected(ctx, cfg.Host)
}
