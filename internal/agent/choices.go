package agent

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// scriptTimeout is how long the user waits for what a script has, which is only shown to them.
const scriptTimeout = 3 * time.Second

// handleChoices says what may be chosen for a session's next run, and if the request wants it, what
// the session's own script has. Without that, it queries no host.
func (a *server) handleChoices(r *http.Request, _ url.Values) (api.ChoicesResponse, error) {
	s, err := a.Sessions.Find(r.PathValue("name"))
	if err != nil {
		return api.ChoicesResponse{}, err
	}
	s.Reconfigure()
	source := a.Source(s.Config())
	options := source.Options()
	if jobs, err := a.Hosts.ConnectedWatcher(source.Session.Host); err == nil && r.URL.Query().Get("script") != "" {
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
		v, err := plan.Preview(r.Context(), a.Hosts.Watcher(host), a.Store, a.History)
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
	return cfg.Host, plans, a.Hosts.AllowedAndConnected(ctx, cfg.Host)
}
