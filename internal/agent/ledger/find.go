package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// finder finds the job of a session on an account of its host, and submits one if the user
// permits that.
type finder struct {
	*Ledger
	jobs    *jobwatch.Watcher
	account string
}

// Obtain finds or submits the session's job on an account of its host, and retries after a lost
// connection or when the scheduler does not respond: a submission is found again by its tag.
func (l *Ledger) Obtain(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, account string) (job api.Job, err error) {
	f := &finder{l, jobs, account}
	err = l.Hosts.RetryUntilUp(ctx, host, func() error {
		job, err = f.find(ctx)
		return err
	}, func(why error) {
		switch {
		case errors.Is(why, api.ErrBusy):
			l.ShowDoing("waiting until your own shell or copy ends: the host allows no more commands at a time")
		case hosts.IsNoAnswer(why):
			l.ShowDoing("the scheduler does not respond; trying again")
		}
	})
	return job, err
}

// find adopts the session's job if it exists on the account, and else submits it if a
// user permitted that.
func (f *finder) find(ctx context.Context) (api.Job, error) {
	f.ShowDoing("asking the scheduler about the job")
	if err := f.Recover(ctx, f.host()); err != nil {
		return api.Job{}, err
	}
	began := time.Now()
	rec := f.saved()
	var unlisted, missed state.Submission
	last := rec.Current()
	for _, sub := range byRole(rec.Submissions) {
		if sub.Role == state.RoleNext && last.Job != nil && last.Job.Unused() {
			continue // it is cancelled
		}
		job, found, err := f.jobs.Find(ctx, f.query(sub))
		found = found && sub.Matches(job, f.account)
		switch {
		case err != nil:
			return api.Job{}, err
		case found && usable(job):
			return job, f.adopt(job, sub, f.account, cmp.Or(job.Seen, began))
		case sub.Job == nil || sub.Elsewhere(f.account): // it may still appear
		case !found && sub.Role == state.RoleJob && recentlySubmitted(*sub.Job):
			unlisted = sub
		case !found && !f.confirmGone(sub, began):
			missed = sub
		case !found:
			f.Drop(sub, facts.Gone(*sub.Job))
		case job.State.Ended():
			job = f.dropEnded(ctx, sub, job)
			if sub.Role == state.RoleJob {
				last.Job = &job
			}
		}
	}
	job, sub, err := f.byName(ctx)
	switch {
	case err != nil:
		return api.Job{}, err
	case job.ID != "":
		return job, f.adopt(job, sub, f.account, cmp.Or(job.Seen, began))
	}
	if unlisted.Job != nil { // the watch will see it, and nothing is submitted
		return *unlisted.Job, f.adopt(*unlisted.Job, unlisted, f.account, time.Time{})
	}
	if missed.Job != nil {
		f.ShowDoing("the scheduler does not know job %s; asking again, since one answer may be wrong", missed.Job.ID)
		if err := ctxtime.Sleep(ctx, f.Limits.Jobs.LookApart()); err != nil {
			return api.Job{}, err
		}
		return f.find(ctx)
	}
	if !f.permitted() {
		return api.Job{}, f.noJobError(last)
	}
	if job, err = f.submittedElsewhere(ctx); err != nil {
		return api.Job{}, err
	}
	if job.ID != "" {
		return job, f.adopt(job, state.Submission{}, f.account, began)
	}
	if text := onOtherAccount(rec.Current(), f.host(), f.account); text != "" {
		f.notify("job %s may still be running: %s", rec.Current().Job.ID, text)
	}
	return f.submit(ctx)
}

// byRole are the submissions whose job may be used, the session's first.
func byRole(l state.Submissions) state.Submissions {
	l = slices.DeleteFunc(slices.Clone(l), func(s state.Submission) bool { return s.Cancel })
	order := []state.Role{state.RoleJob, state.RoleNext, state.RoleOther}
	slices.SortStableFunc(l, func(a, b state.Submission) int {
		return cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role))
	})
	return l
}

// query finds the job of a submission. On another account, its ID may be another job's.
func (f *finder) query(sub state.Submission) jobwatch.Query {
	args := f.owner.Config().Args
	if sub.Job == nil || sub.Tag != "" && sub.Elsewhere(f.account) {
		return jobwatch.Query{Tag: sub.Tag, Args: args}
	}
	return jobwatch.Query{ID: sub.Job.Ref(), Args: args}
}

func usable(job api.Job) bool { return !job.State.Ended() && job.State != api.JobCompleting }

// byName finds a job of the session's name, and the submission that made it, if tunctl's. The
// job is zero if there is none.
func (f *finder) byName(ctx context.Context) (api.Job, state.Submission, error) {
	cfg := f.owner.Config()
	if cfg.Job == "" || f.OneJob {
		return api.Job{}, state.Submission{}, nil
	}
	name := cfg.Job
	if f.Of != "" {
		name = f.Source(cfg).JobName(name)
	}
	rec := f.saved() // before the query, during which a job that is to be cancelled may be cancelled and forgotten
	job, found, err := f.jobs.Find(ctx, jobwatch.Query{Name: name, Args: cfg.Args})
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		return api.Job{}, state.Submission{}, api.Errorf(api.CodeFailed, "%w", several).
			WithHint("`tunctl attach %s %s` opens the newest; or cancel the others with `tunctl cancel %s JOB`, then run this again",
				cfg.Host, several.Jobs[0].Ref(), cfg.Host)
	}
	if err != nil || !found || !usable(job) {
		return api.Job{}, state.Submission{}, err
	}
	sub := rec.Submissions.Of(job)
	if current := rec.Current(); sub.Job == nil && sub.Tag == "" && current.Job == nil && state.TagOf(job) == "" { // the scheduler may not tell the script
		sub = current
	}
	if sub.Cancel {
		return api.Job{}, state.Submission{}, nil
	}
	return job, sub, nil
}

// submittedElsewhere finds a job of the session that another computer of the user has submitted, so that
// none is submitted beside it. The job is zero if there is none.
func (f *finder) submittedElsewhere(ctx context.Context) (api.Job, error) {
	runs, err := f.History.Runs()
	if err != nil {
		f.Log.Debug("cannot read the history", "err", err)
	}
	rec := f.saved()
	list, err := f.jobs.Submitted(ctx, f.Name, func(x jobwatch.Submitted) bool {
		ours := func(sub state.Submission) bool {
			return sub.Tag == x.Tag || sub.Job != nil && sub.Job.Ref() == x.Job.ID
		}
		ended := func(r api.Run) bool { return r.Host == f.host() && r.Job.Ref() == x.Job.ID }
		return x.Session == f.Name && x.Computer != submit.Computer() && x.Job.ID != "" && !slices.ContainsFunc(rec.Submissions, ours) && !slices.ContainsFunc(runs, ended)
	})
	for _, x := range list {
		if !usable(x.Job) {
			continue
		}
		from, base := "another computer", f.Base()
		if x.Computer != "" {
			from += fmt.Sprintf(" (%s)", api.Sanitize(x.Computer))
		}
		f.notify("job %s of %s was started from %s; opening it. `tunctl up %s --as %s` starts a second one", x.Job.ID, f.Name, from, base, f.FreeName(base))
		return x.Job, nil
	}
	return api.Job{}, err
}

// noJobError says that the session has no job, and that no user permits a submission.
func (f *finder) noJobError(was state.Submission) error {
	cfg := f.owner.Config()
	elsewhere := onOtherAccount(was, cfg.Host, f.account)
	var e *api.Error
	switch {
	case elsewhere != "":
		e = api.Errorf(api.CodeJobEnded, "%s", elsewhere).WithHint("`tunctl up %s` starts a new one", f.Name)
	case f.OneJob:
		e = api.Errorf(api.CodeJobEnded, "the job of %s no longer exists", f.Name).WithHint("%s", facts.StartedByHand)
		if last := f.History.LastJob(f.Name, f.host()); last != nil {
			e.Message = facts.EndText(last, time.Now())
		}
	case was.InDoubt():
		e = api.Errorf(api.CodeJobEnded, "the result of the last submission of %s is not known, and no job of it is on %s yet",
			f.Name, cfg.Host).
			WithHint("`tunctl jobs %s` shows whether it appears; `tunctl up %s` uses it, or starts one", cfg.Host, f.Name)
	case was.Job != nil:
		e = api.Errorf(api.CodeJobEnded, "job %s no longer exists", was.Job.ID).WithHint("`tunctl up %s` starts a new one", f.Name)
		if was.Job.State.Ended() {
			e.Message = facts.EndText(was.Job, time.Now())
		}
	case cfg.Submit == "":
		e = noSuchJobError(cfg, api.CodeJobEnded)
	default:
		e = api.Errorf(api.CodeJobEnded, "session %s has no job, and nobody waits for one to be submitted", f.Name).
			WithHint("`tunctl up %s` starts one", f.Name)
	}
	if cfg.Submit == "" && !f.OneJob { // it could not be submitted anyway
		e.Hint = noSuchJobError(cfg, e.Code).Hint
	}
	return e
}

// noSuchJobError is the error of a session that only looks for its job.
func noSuchJobError(cfg configs.Session, code api.Code) *api.Error {
	return api.Errorf(code, "no job called %q is queued or running on %s", cfg.Job, cfg.Host).
		WithHint(`start the job there, or set submit = "~/script.sh" in [session.%s]`, cfg.Name)
}

// submit submits the job once. The tag is saved before the submission: if the connection
// or the agent breaks in between, the next attempt with the same tag finds the job instead
// of submitting another.
func (f *finder) submit(ctx context.Context) (api.Job, error) {
	cfg := f.owner.Config()
	if cfg.Submit == "" {
		return api.Job{}, noSuchJobError(cfg, api.CodeFailed)
	}
	was := f.Current()
	interrupted := was
	if was.Job != nil || was.Doubt || was.Cancel || was.Elsewhere(f.account) {
		interrupted = state.Submission{}
	}
	plan, sub, err := f.begin(f.Source(cfg), interrupted)
	if err != nil {
		return api.Job{}, err
	}
	order, err := plan.Order(ctx, f.jobs, sub.Tag)
	if err == nil && !f.permitted() { // it may have ended meanwhile
		err = f.noJobError(was)
	}
	if known := f.owner.Facts(); err == nil && !known.Permit.ByPerson(time.Now()) { // but an assistant only
		err = f.chargeAssistant(ctx, plan, order)
	}
	if err != nil {
		continues := sub.Tag == interrupted.Tag
		f.unmade(sub, continues)
		if !continues { // the next attempt gets its choices
			f.owner.Change(func(x *facts.Facts) {
				x.Submitting = false
				if x.Asked.With == nil {
					x.Asked = plan
				}
			})
		}
		return api.Job{}, err
	}
	order.Awaited = true
	began := time.Now()
	job, err := plan.Submit(ctx, f.jobs, order)
	if err = submit.RefuseUnreached(err); err != nil {
		f.Lost(sub, err)
		return api.Job{}, err
	}
	err = f.adopt(job, sub, f.account, time.Now())
	f.owner.Change(func(f *facts.Facts) { // its job may have ended already, and is not submitted again
		if !f.Permit.GivenAfter(began) {
			f.EndPermit()
		}
	})
	return job, err
}

// begin records the submission that begins now, and returns it with its plan. From then on, no
// other choices are accepted. An interrupted one is finished as it was begun: its job may exist.
func (f *finder) begin(source *submit.Source, interrupted state.Submission) (plan submit.Plan, sub state.Submission, err error) {
	present := f.presentIn(interrupted)
	var asked submit.Plan
	f.owner.Change(func(x *facts.Facts) {
		asked, x.Asked = x.Asked, submit.Plan{}
		if plan = asked; interrupted.Tag != "" {
			if !present.have(plan.With) {
				err = present.others("an earlier submission of "+f.Name+" was interrupted, and its job may still appear",
					fmt.Sprintf("`tunctl up %s` finishes it as it was begun", f.Name), plan.With)
				return
			}
			plan = source.Unchecked(interrupted.With)
		}
		x.Submitting, x.Doing = true, facts.Doing{Text: "submitting " + source.Session.Submit}
	})
	if err != nil {
		return plan, interrupted, err
	}
	sub = state.Submission{Tag: cmp.Or(interrupted.Tag, f.Name+"-"+strings.ToLower(rand.Text()[:10])), Role: state.RoleJob, Host: source.Session.Host, Account: f.account, With: plan.With}
	err = f.Store.Begin(f.Name, func(r *state.Session) { r.Submissions, r.Assisted = r.Submissions.Put(sub), false })
	f.owner.Change(func(x *facts.Facts) {
		if x.Unsaved = err; err != nil {
			x.Asked, x.Submitting = asked, false
			err = fmt.Errorf("nothing was submitted: %w", err)
		}
	})
	return plan.For(source), sub, err
}

// chargeAssistant counts the job of an assistant before it is submitted, and refuses it if
// it may take more than is left of the day.
func (f *finder) chargeAssistant(ctx context.Context, plan submit.Plan, sub jobwatch.Submission) error {
	hours, err := plan.NodeHours(ctx, f.jobs, sub)
	if err != nil {
		return err
	}
	limit := f.Settings.Config().MCP.NodeHours
	left, fits, err := f.Store.AddAssistantJob(state.AssistantJob{Tag: sub.Tag, At: time.Now().Round(0), NodeHours: hours}, limit)
	switch {
	case err != nil:
		return fmt.Errorf("nothing was submitted: %w", err)
	case !fits:
		return submit.TooManyHours(hours, left, limit, f.Name)
	}
	return f.record(func(r *state.Session) { r.Assisted = true })
}

// permitted reports whether the session's job may be submitted.
func (l *Ledger) permitted() bool {
	known := l.owner.Facts()
	return known.Permit.Live(time.Now())
}

// Lost records that a submit command gave no job. One that was refused for certain is
// forgotten, and its tag not used again.
func (l *Ledger) Lost(sub state.Submission, err error) {
	if api.HasCode(err, api.CodeSubmit) {
		_ = l.record(func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) })
		if err := l.Store.DropAssistantJob(sub.Tag); err != nil {
			l.Log.Warn("a job that was refused still counts for assistants", "tag", sub.Tag, "err", err)
		}
		return
	}
	l.change(sub, func(x *state.Submission) { x.When, x.Doubt = time.Now(), x.Doubt || isUncertain(err) })
	l.Unsettled()
}

// unmade records that no submit command was run for a submission. One that continues another may have
// a job by that one's command.
func (l *Ledger) unmade(sub state.Submission, continues bool) {
	_ = l.record(func(r *state.Session) {
		if r.Submissions = r.Submissions.Change(sub, func(x *state.Submission) { x.When = time.Now() }); !continues {
			r.Submissions = r.Submissions.Drop(sub)
		}
	})
	l.Unsettled()
}

// isUncertain reports whether the user has to check that a job was submitted.
func isUncertain(err error) bool {
	_, doubt := errors.AsType[*jobwatch.DoubtError](err)
	return doubt
}

// CheckPresent checks that a job that the session has already has these choices; nil are none.
func (l *Ledger) CheckPresent(with api.Choices) error {
	if with == nil {
		return nil
	}
	present, known := l.presentIn(l.Current()), l.owner.Facts()
	switch {
	case !l.owner.InProgress():
	case known.Submitting:
		if !present.have(with) {
			return present.others("a job of "+l.Name+" is just being submitted", present.endFirst(), with)
		}
	case known.Job() != nil && !known.JobOver():
		return present.conflict(*known.Job(), with)
	}
	return nil
}

// presentChoices are what is known of how a session's job was submitted.
type presentChoices struct {
	ledger *Ledger
	known  bool        // this tunctl submitted it
	with   api.Choices // what the user chose
	values api.Choices // that, and what the config or the site has for the rest
}

func (l *Ledger) presentIn(sub state.Submission) presentChoices {
	return presentChoices{l, sub.Tag != "", sub.With, l.Source(l.owner.Config()).Values(sub.With)}
}

// have reports whether the job has these choices.
func (p presentChoices) have(with api.Choices) bool {
	for name, value := range with {
		if p.values[name] != value {
			return false
		}
	}
	return true
}

// conflict is the error of choices that the session's job does not have.
func (p presentChoices) conflict(job api.Job, with api.Choices) error {
	what := fmt.Sprintf("job %s of %s is already %s", job.ID, p.ledger.Name, job.State)
	switch {
	case !p.known:
		what = fmt.Sprintf("job %s of %s is %s, and was not submitted from here: whether it has %s is not known", job.ID, p.ledger.Name, job.State, with)
	case p.have(with):
		return nil
	}
	return p.others(what, p.endFirst(), with)
}

func (p presentChoices) endFirst() string {
	return fmt.Sprintf("`tunctl down %s --cancel` ends it first", p.ledger.Name)
}

// others is the error for a job with other choices than those of the request; first is
// what to do about it in place of a second session.
func (p presentChoices) others(what, first string, with api.Choices) *api.Error {
	switch {
	case !p.known:
	case len(p.with) == 0:
		what += ", as the config has it and not with " + with.String()
	default:
		what += ", with " + p.with.String()
	}
	base := p.ledger.Base()
	return api.Errorf(api.CodeOtherChoices, "%s", what).
		WithHint("%s; `tunctl up %s --as %s %s` starts a second one beside it", first, base, p.ledger.FreeName(base), with.Flags())
}
