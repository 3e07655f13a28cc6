package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// Plan is the next job of a session, with the user's choices.
type Plan struct {
	// With are the choices, in their normal form once they are checked; nil: none were made.
	With api.Choices

	source  *Source
	checked bool // the choices
	// job and script are what a builtin job becomes; nil until the choices are checked.
	job    *configs.Job
	script []byte
}

// Plan checks choices, as far as the site is known. If it is not, Order checks them.
func (s *Source) Plan(with api.Choices) (Plan, error) {
	p := s.Unchecked(with)
	questions, site, known := s.questions()
	if !known {
		return p, nil
	}
	return p.check(questions, site, cmp.Or(s.Scheduler, site.Scheduler))
}

// Unchecked is the plan with choices of an earlier submission, or with none; Order checks them.
func (s *Source) Unchecked(with api.Choices) Plan { return Plan{source: s, With: with} }

// For is the plan for a session's settings as they are now. If they were changed since the choices
// were checked, Order checks them again.
func (p Plan) For(s *Source) Plan {
	if p.source != nil && reflect.DeepEqual(p.source.Session, s.Session) && reflect.DeepEqual(p.source.Host, s.Host) {
		p.source = s // its script may be another by now
		return p
	}
	return s.Unchecked(p.With)
}

func (p Plan) check(questions []configs.Question, site configs.Site, scheduler string) (Plan, error) {
	var err error
	p.With, err = configs.CheckChoices(questions, p.With)
	p.checked = err == nil
	if err != nil || p.source.Session.Builtin() == "" {
		return p, err
	}
	p.job = p.source.Session.WithAnswers(p.With).BuiltinJob(p.source.Host, site, scheduler)
	p.script, err = p.job.Script() // also the limits of a queue
	return p, err
}

// Order is the submission of the plan with a tag. A job that the site would refuse is refused here.
func (p Plan) Order(ctx context.Context, jobs *jobwatch.Watcher, tag string) (jobwatch.Submission, error) {
	s := p.source
	order := s.order(tag)
	err := jobs.MaySubmit(ctx)
	if err != nil {
		return order, err
	}
	if s.Session.Builtin() != "" {
		order, err = p.builtin(ctx, jobs, order)
	} else {
		order, err = p.ownScript(ctx, jobs, order)
	}
	if err == nil && s.second() && s.Session.Log == "" {
		err = s.checkOwnLog(ctx, jobs, order)
	}
	if err == nil {
		err = s.checkRequired(ctx, jobs, order)
	}
	return order, err
}

// Computer is the name of this computer, without its domain, which may be that of the network.
func Computer() string {
	name, _ := os.Hostname() // without a name it is "", as with jobs of an older tunctl
	name, _, _ = strings.Cut(name, ".")
	return name
}

// order is a submission as the session's section says it, without a script.
func (s *Source) order(tag string) jobwatch.Submission {
	return jobwatch.Submission{Tag: tag, Session: s.Session.Name, Computer: Computer(), Args: s.Session.Args, Workdir: s.Session.Workdir}
}

// Submit submits an order of the plan. If the scheduler refuses a job that tunctl wrote, the hint
// names the user's answers, not only the scheduler's options.
func (p Plan) Submit(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) (api.Job, error) {
	job, err := jobs.Submit(ctx, order)
	return job, p.source.explain(ctx, jobs, err)
}

// builtin is a job that comes with tunctl, written for the host's site with the session's answers,
// and the user's choices in place of some.
func (p Plan) builtin(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) (jobwatch.Submission, error) {
	s := p.source
	site, scheduler, err := s.siteOn(ctx, jobs)
	if err == nil && (p.job == nil || p.job.Scheduler != scheduler) {
		p, err = p.check(s.Session.RunQuestions(site), site, scheduler)
	}
	if err != nil {
		return order, err
	}
	order.Content = p.script
	if err := p.checkOverridden(ctx, jobs, order); err != nil {
		return order, err
	}
	if s.second() && len(order.Args) > 0 { // which may have the name of the first session's job
		if order, err = s.named(ctx, jobs, order, p.job.Name); err != nil {
			return order, err
		}
	}
	order.Base = p.job.Name + ".sh"
	if order.Logs, err = p.job.LogFolder(); err != nil {
		return order, err
	}
	if order.Workdir == "" {
		order.Workdir, err = p.job.Workdir()
	}
	return order, err
}

// ownScript is a script of the user's own, with their choices as options. The job of a second
// session gets its name, so that the first session does not find it.
func (p Plan) ownScript(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) (jobwatch.Submission, error) {
	s := p.source
	path, isLocal := strings.CutPrefix(s.Session.Submit, configs.LocalPrefix)
	if isLocal {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Folder, path) // the working directory of the agent means nothing
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return order, api.Errorf(api.CodeConfig, "the script of [session.%s] cannot be read: %w", s.Section, err).
				WithHint("a relative path after local: starts at the directory of the config file")
		}
		order.Content, order.Base = content, filepath.Base(path)
	} else {
		order.Script = s.Session.Submit
	}
	var err error
	if !p.checked {
		p, err = p.check(configs.ScriptQuestions(), configs.Site{}, "")
	}
	if err == nil && s.second() {
		order, err = s.named(ctx, jobs, order, s.Session.Job)
	}
	if err != nil {
		return order, err
	}
	return s.drafts(jobs).WithChoices(ctx, order, p.With)
}

// named is a submission whose job has another name, as the scheduler accepts it.
func (s *Source) named(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission, name string) (jobwatch.Submission, error) {
	known := Source{Scheduler: cmp.Or(s.Scheduler, jobs.KnownScheduler())}
	return s.drafts(jobs).Named(ctx, order, known.JobName(name))
}

// checkOwnLog refuses a second session's job that would write to the first one's log: each
// would find the other's page there.
func (s *Source) checkOwnLog(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) error {
	log, hint, err := s.drafts(jobs).SharedLog(ctx, order)
	if err != nil || log == "" {
		return err
	}
	return api.Errorf(api.CodeUsage, "nothing was submitted: the job of %s would write to the same log as the first one: %s",
		s.Session.Name, api.Sanitize(log)).WithHint("%s", hint)
}

// checkRequired refuses a job without an option that the site requires.
func (s *Source) checkRequired(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) error {
	site, err := s.Sites.Find(s.Host.Site)
	if s.Host.Site == "" || err != nil {
		return nil //nolint:nilerr // nothing is known about it
	}
	missing, err := s.drafts(jobs).MissingOptions(ctx, order, site.Require)
	if err != nil || len(missing) == 0 {
		return err
	}
	args := make([]string, 0, len(missing))
	for _, text := range missing {
		for word := range strings.FieldsSeq(text) {
			args = append(args, strconv.Quote(word))
		}
	}
	hint := fmt.Sprintf("set args = [%s] in [session.%s], with your own values", strings.Join(args, ", "), s.Section)
	if s.Session.Name == "" { // `tunctl submit`
		hint = "give it as an argument of the command"
	}
	about := s.answersAbout(ctx, jobs, strings.Join(missing, "\n"), refusedAnswers)
	switch {
	case s.Session.Builtin() == "":
		hint = fmt.Sprintf("add %s to %s, or %s", strings.Join(missing, " and "), s.Session.Submit, hint)
	case len(about) > 0:
		hint = fmt.Sprintf("set %s; or %s", inWith(s.Section, about), hint)
	}
	return api.Errorf(api.CodeSubmit, "nothing was submitted: site %s refuses jobs without %s",
		site.Name, strings.Join(missing, " and ")).WithHint("%s", hint)
}

// checkOverridden refuses choices that the session's args would override.
func (p Plan) checkOverridden(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) error {
	if len(p.With) == 0 || len(order.Args) == 0 {
		return nil
	}
	unchanged, err := p.source.Session.BuiltinJob(p.job.Host, p.job.Site, p.job.Scheduler).Script()
	if err != nil {
		unchanged = nil // the choices are what makes it valid: all of its options count
	}
	options, err := p.source.drafts(jobs).OverriddenOptions(ctx, order, unchanged)
	if err != nil || len(options) == 0 {
		return err
	}
	return api.Errorf(api.CodeUsage, "nothing was submitted: args of [session.%s] has %s, which would override %s",
		p.source.Section, strings.Join(options, " and "), p.With).
		WithHint("remove it from args, and set it in with = { … }")
}

// Preview says what the plan would submit, what that costs and when it would start. Nothing is
// submitted.
func (p Plan) Preview(ctx context.Context, jobs *jobwatch.Watcher, store *state.Store, history *state.History, withStart bool) (api.Preview, error) {
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
	request, err := s.drafts(jobs).RequestOf(ctx, sub)
	if err != nil {
		return out, err
	}
	out.Cost = s.cost(ctx, jobs, request)
	if out.Waited, err = history.EarlierWaits(s.Session.Host, s.Session.Name, cmp.Or(request.Name, s.Session.Job)); err != nil {
		s.Log.Debug("cannot read the history", "err", err)
	}
	if !withStart {
		return out, nil
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
