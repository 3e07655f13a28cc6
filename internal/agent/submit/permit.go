package submit

import (
	"context"
	"maps"
	"strconv"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// Permit is the user's permission to submit a session's job once; the zero value is none. A
// command permits as long as it waits; a click, which has no name, until the time is over. The
// first answer of the scheduler to a query that began after it was given settles it: the session
// has a job, or one is submitted. Copies do not share what changes.
type Permit struct {
	given time.Time            // the last time
	until map[string]time.Time // by the name of the command; wall clock times, which also pass while a laptop sleeps
}

// Grant adds the permission of a command, for a time at most.
func (p *Permit) Grant(waiter string, limit time.Duration) {
	if p.until = maps.Clone(p.until); p.until == nil {
		p.until = map[string]time.Time{}
	}
	p.given = time.Now()
	p.until[waiter] = p.given.Round(0).Add(limit)
}

// Revoke ends the permission of a command, and reports whether it had given one.
func (p *Permit) Revoke(waiter string) bool {
	_, gave := p.until[waiter]
	p.until = maps.Clone(p.until)
	delete(p.until, waiter)
	return gave
}

// IsZero reports whether there is no permission, not even one whose time is over.
func (p *Permit) IsZero() bool { return p.until == nil }

// Live reports whether a job may be submitted.
func (p *Permit) Live(now time.Time) bool { return now.Before(p.End()) }

// End is when the last permission ends; zero without any.
func (p *Permit) End() time.Time {
	var end time.Time
	for _, until := range p.until {
		if until.After(end) {
			end = until
		}
	}
	return end
}

// GivenAfter reports whether a command gave its permission after a time.
func (p *Permit) GivenAfter(t time.Time) bool { return p.given.After(t) }

// ByPerson reports whether the user asked for the job, and not an assistant only.
func (p *Permit) ByPerson(now time.Time) bool {
	for waiter, until := range p.until {
		if waiter != Assistant && now.Before(until) {
			return true
		}
	}
	return false
}

// SettledBy reports whether an answer of the scheduler says that the session has a job. One to
// an earlier query does not, nor one about a job that is about to end.
func (p *Permit) SettledBy(r jobwatch.Report) bool {
	live := !r.State.Ended() && r.State != api.JobUnknown && r.State != api.JobCompleting
	return live && !r.Asked.IsZero() && !r.Asked.Before(p.given)
}

// Assistant is the name under which an assistant's up permits a submission.
const Assistant = "assistant"

// NodeHours are the node-hours that a job may take, as they count for an assistant. A job of several
// nodes counts for each of them, also if it does not use them whole, and an array for each of its jobs.
func (p Plan) NodeHours(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) (float64, error) {
	size, err := p.source.drafts(jobs).SizeOf(ctx, order)
	session := p.source.Session.Name
	switch {
	case err != nil:
		return 0, err
	case size.Time <= 0:
		return 0, api.Errorf(api.CodeSubmit, "nothing was submitted: the job does not say how long it runs, so it cannot be compared with what assistants may start").
			WithHint("set a time limit in the job's script, or start it yourself: `tunctl up %s`", session)
	case size.Nodes <= 0:
		return 0, api.Errorf(api.CodeSubmit, "nothing was submitted: how many nodes the job takes cannot be read from its options, so it cannot be compared with what assistants may start").
			WithHint("say it as a number (--nodes=1), or start it yourself: `tunctl up %s`", session)
	}
	return size.Time.Hours() * float64(size.Nodes), nil
}

// TooManyHours is the error for a job that takes more than assistants may still start.
func TooManyHours(hours, left, limit float64, session string) error {
	return api.Errorf(api.CodeSubmit, "nothing was submitted: the job asks for %s node-hours, and of the %s that assistants may start a day %s are left",
		HoursText(hours), HoursText(limit), HoursText(left)).
		WithHint("start it yourself: `tunctl up %s`", session)
}

// HoursText are node-hours in words.
func HoursText(hours float64) string { return strconv.FormatFloat(max(0, hours), 'f', -1, 64) }
