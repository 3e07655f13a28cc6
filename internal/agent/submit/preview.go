package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// Preview says what the plan would submit, what that costs and when it would start. Nothing is
// submitted.
func (p Plan) Preview(ctx context.Context, jobs *jobwatch.Watcher, store *state.Store, history *state.History) (api.Preview, error) {
	out, s := api.Preview{With: p.With}, p.source
	sub, err := p.Order(ctx, jobs, "preview")
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeSubmit {
		out.Refused = refusedText(e)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if out.Script, err = s.drafts(jobs).Script(ctx, sub); err != nil {
		return out, err
	}
	if out.Command, err = s.drafts(jobs).CommandOf(ctx, sub); err != nil {
		return out, err
	}
	request, err := s.drafts(jobs).RequestOf(ctx, sub, out.Script)
	if err != nil {
		return out, err
	}
	out.Cost = s.cost(ctx, jobs, request)
	if out.Waited, err = history.EarlierWaits(s.Session.Host, s.Session.Name, cmp.Or(request.Name, s.Session.Job)); err != nil {
		s.Log.Debug("cannot read the history", "err", err)
	}
	return s.withStart(ctx, jobs, store, out, sub)
}

// cost is what the job costs if it runs for its whole time limit.
func (s *Source) cost(ctx context.Context, jobs *jobwatch.Watcher, r jobwatch.Request) string {
	site, _, err := s.siteOn(ctx, jobs)
	if err != nil {
		s.Log.Debug("cannot find the site of a host", "host", s.Session.Host, "err", err)
	}
	return site.Cost(configs.Usage{Time: r.Time, Cores: r.CPUs, GPUs: r.GPUs, Nodes: r.Nodes, Exclusive: r.Exclusive, Queues: r.Queues})
}

// withStart adds when the job would start. Where a test has submitted a job, none is ever
// tested again.
func (s *Source) withStart(ctx context.Context, jobs *jobwatch.Watcher, store *state.Store, out api.Preview, sub jobwatch.Submission) (api.Preview, error) {
	host := s.Session.Host
	if store.TestSubmits(host) {
		out.Why = fmt.Sprintf("not asked: a test on %s has submitted a job before, so jobs are not tested there any more", host)
		return out, nil
	}
	start, err := jobs.TestStart(ctx, sub)
	err = s.explain(ctx, jobs, err)
	if start.Submitted != "" {
		store.SetTestSubmits(host)
		out.Why = fmt.Sprintf("the submit command on %s does not know tests: it submitted job %s", host, start.Submitted)
		if start.Cancelled {
			out.Why += ", which was cancelled at once. Jobs are not tested there any more"
		} else {
			out.Why += fmt.Sprintf(", which could not be cancelled: run `tunctl cancel %s %s`. Jobs are not tested there any more", host, start.Submitted)
		}
		return out, nil
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeSubmit {
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
