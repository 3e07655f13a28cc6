package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"tunctl/configs"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/localapi"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// maxPreviews is how many variants of a job one request may ask about: each is a query.
const maxPreviews = 4

// handlePreview streams what an up would submit, once for each set of choices, as soon as it
// is known. Nothing is submitted.
func (a *Agent) handlePreview(w http.ResponseWriter, r *http.Request) {
	var req api.PreviewRequest
	if err := localapi.Decode(w, r, &req); err != nil {
		localapi.Fail(w, err)
		return
	}
	p, err := a.previewFor(r.Context(), req)
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	out := localapi.NewLines(w)
	for _, with := range p.variants {
		v, err := p.preview(r.Context(), with)
		if err != nil && !out.Sent() {
			localapi.Fail(w, hosts.SchedulerError(p.cfg.Host, err))
			return
		}
		if err != nil { // the others may still be known
			v = api.Preview{With: with, Why: api.Redact(err.Error())}
		}
		if out.Send(v) != nil {
			return
		}
	}
}

// preview is what is asked about a session's next job.
type preview struct {
	agent    *Agent
	cfg      configs.Session
	jobs     *jobwatch.Watcher
	variants []api.Choices
}

// previewFor checks a request. The host must be connected.
func (a *Agent) previewFor(ctx context.Context, req api.PreviewRequest) (*preview, error) {
	s, err := a.session(req.Session)
	if err != nil {
		return nil, err
	}
	s.reconfigure()
	p := &preview{agent: a, cfg: s.config(), variants: req.With}
	switch {
	case p.cfg.Submit == "":
		return nil, api.Errorf(api.CodeUsage, "tunctl submits no job for session %s", s.name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, a.section(s.name))
	case len(req.With) > maxPreviews:
		return nil, api.Errorf(api.CodeUsage, "%d variants are too many: each is a question to the scheduler, and at most %d are asked at a time",
			len(req.With), maxPreviews).WithHint("give fewer values")
	case len(req.With) == 0:
		p.variants = []api.Choices{nil}
	}
	for i, with := range p.variants { // before anything is asked
		if p.variants[i], err = a.checkChoices(p.cfg, with); err != nil {
			return nil, err
		}
	}
	if err := a.hosts.AllowedAndConnected(ctx, p.cfg.Host); err != nil {
		return nil, err
	}
	p.jobs = a.hosts.Watcher(p.cfg.Host)
	return p, nil
}

// preview is one variant.
func (p *preview) preview(ctx context.Context, with api.Choices) (api.Preview, error) {
	out := api.Preview{With: with}
	sub, err := p.agent.submission(ctx, p.cfg, p.jobs, "preview", with)
	if e, ok := asAPI(err); ok && e.Code == api.CodeSubmit {
		out.Refused = refusedText(e)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if out.Script, err = p.jobs.Script(ctx, sub); err != nil {
		return out, err
	}
	if out.Command, err = p.jobs.CommandOf(ctx, sub); err != nil {
		return out, err
	}
	request, err := p.jobs.RequestOf(ctx, sub, out.Script)
	if err != nil {
		return out, err
	}
	out.Cost = p.cost(ctx, request)
	if out.Waited, err = p.agent.history.EarlierWaits(p.cfg.Host, p.cfg.Name, cmp.Or(request.Name, p.cfg.Job)); err != nil {
		p.agent.log.Debug("cannot read the history", "err", err)
	}
	return p.withStart(ctx, out, sub)
}

// cost is what the job costs if it runs for its whole time limit. Nodes count where no other
// job runs on them.
func (p *preview) cost(ctx context.Context, r jobwatch.Request) string {
	site, err := p.agent.hosts.SiteOf(ctx, p.cfg.Host, p.jobs)
	if err != nil {
		p.agent.log.Debug("cannot find the site of a host", "host", p.cfg.Host, "err", err)
	}
	cores, nodes := r.CPUs, 0
	if r.Exclusive || site.Charge.NodeHour > 0 {
		cores, nodes = 0, max(r.Nodes, 1)
	}
	return site.Charge.Cost(r.Time, cores, r.GPUs, nodes)
}

// withStart adds when the job would start. Where a test has submitted a job, none is ever
// tested again.
func (p *preview) withStart(ctx context.Context, out api.Preview, sub jobwatch.Submission) (api.Preview, error) {
	host := p.cfg.Host
	if p.agent.store.TestSubmits(host) {
		out.Why = fmt.Sprintf("not asked: a test on %s has submitted a job before, so jobs are not tested there any more", host)
		return out, nil
	}
	start, err := p.jobs.TestStart(ctx, sub)
	err = p.agent.aboutAnswers(ctx, p.cfg, p.jobs, err)
	if start.Submitted != "" {
		p.agent.store.SetTestSubmits(host)
		out.Why = fmt.Sprintf("the submit command on %s does not know tests: it submitted job %s", host, start.Submitted)
		if start.Cancelled {
			out.Why += ", which was cancelled at once. Jobs are not tested there any more"
		} else {
			out.Why += fmt.Sprintf(", which could not be cancelled: run `tunctl cancel %s %s`. Jobs are not tested there any more", host, start.Submitted)
		}
		return out, nil
	}
	if e, ok := asAPI(err); ok && e.Code == api.CodeSubmit {
		out.Refused, out.Waited = refusedText(e), ""
		return out, nil
	}
	out.Start, out.Why = start.At, start.Words
	return out, err
}

// refusedText is a refusal in one text.
func refusedText(e *api.Error) string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}
