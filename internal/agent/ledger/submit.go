package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// submit submits the job once. The tag is saved before the submission: if the connection
// or the agent breaks in between, the next attempt with the same tag finds the job instead
// of submitting another.
func (f *finder) submit(ctx context.Context) (api.Job, error) {
	jobs, account := f.jobs, f.account
	cfg := f.owner.Config()
	if cfg.Submit == "" {
		return api.Job{}, noSuchJobError(cfg, api.CodeFailed)
	}
	was := f.Current()
	interrupted := was
	if was.Job != nil || was.Doubt || was.Cancel || was.Elsewhere(account) {
		interrupted = state.Submission{}
	}
	plan, sub, err := f.begin(f.Source(cfg), interrupted)
	if err != nil {
		return api.Job{}, err
	}
	order, err := plan.Order(ctx, jobs, sub.Tag)
	if err == nil && !f.permitted() { // it may have ended meanwhile
		err = f.noJobError(was)
	}
	if known := f.owner.Facts(); err == nil && !known.Permit.ByPerson(time.Now()) { // but an assistant only
		err = f.chargeAssistant(ctx, plan, order)
	}
	if err != nil {
		continues := sub.Tag == interrupted.Tag
		f.unmade(sub, continues)
		if !continues {
			f.notBegun(plan)
		}
		return api.Job{}, err
	}
	order.Awaited = true
	began := time.Now()
	job, err := plan.Submit(ctx, jobs, order)
	if err = submit.RefuseUnreached(err); err != nil {
		f.Lost(sub, err)
		return api.Job{}, err
	}
	err = f.adopt(job, sub, account, time.Now())
	f.owner.Change(func(f *facts.Facts) { // its job may have ended already, and is not submitted again
		if !f.Permit.GivenAfter(began) {
			f.EndPermit()
		}
	})
	return job, err
}

// notBegun gives the next attempt the choices of a submission that was not made.
func (f *finder) notBegun(plan submit.Plan) {
	f.owner.Change(func(x *facts.Facts) {
		x.Submitting = false
		if x.Asked.With == nil {
			x.Asked = plan
		}
	})
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
