package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/jobwatch/remote"
)

// nextQuery is when the next query is due; ok is false if nothing is watched.
func (p *poll) nextQuery() (at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.anyActiveLocked() {
		return time.Time{}, false
	}
	switch {
	case !p.early.IsZero(): // a query before that would find the job as it was submitted
		return p.early, true
	case p.soon:
		return p.lastQuery.Add(p.host.Limits.QueryMin), true
	}
	return p.due, true
}

// isEarlyLocked reports whether the query after a submission is due.
func (p *poll) isEarlyLocked() bool { return !p.early.IsZero() && !time.Now().Before(p.early) }

// answersSoonLocked reports whether the scheduler may be queried within a moment: its answer has
// the node too, and is worth waiting for.
func (p *poll) answersSoonLocked() bool {
	return time.Until(cmp.Or(p.early, p.lastQuery.Add(p.host.Limits.QueryMin))) < time.Second/2
}

func (p *poll) anyActiveLocked() bool {
	for x := range p.watches {
		if !x.passive && x.isActiveLocked() {
			return true
		}
	}
	return false
}

// fresh reports whether the last list is good enough. For the watched jobs it is not if something has
// happened since.
func (p *poll) fresh(jobs scope) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stale && (jobs == allJobs || !p.soon) && !p.isEarlyLocked() && !p.jobsAt.IsZero() && time.Since(p.jobsAt) < p.host.Limits.QueryMin
}

// waitQueryMin keeps two queries Limits.QueryMin apart, but for the one after a submission. A
// user who wants the list does not wait because of a query for the watched jobs alone.
func (p *poll) waitQueryMin(ctx context.Context, jobs scope) error {
	p.mu.Lock()
	last := p.lastQuery
	if jobs == allJobs {
		last = p.lastList
	}
	at := last.Add(p.host.Limits.QueryMin)
	if !p.early.IsZero() && p.early.Before(at) {
		at = p.early
	}
	p.mu.Unlock()
	return ctxtime.Sleep(ctx, time.Until(at))
}

// awaitTurn waits until no other command runs on the host, and the last query is
// Limits.QueryMin ago. Without an error, the caller has the turn.
func (p *poll) awaitTurn(ctx context.Context) error {
	for {
		p.mu.Lock()
		wait := time.Until(p.lastQuery.Add(p.host.Limits.QueryMin))
		p.mu.Unlock()
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return err
		}
		if err := p.host.turn.Lock(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		due := time.Since(p.lastQuery) >= p.host.Limits.QueryMin
		if due {
			p.lastQuery = time.Now()
		}
		p.mu.Unlock()
		if due {
			return nil
		}
		p.host.turn.Unlock() // the watches have made a query meanwhile
	}
}

// beginQuery records that a query begins, and reports whether it is the one after a submission.
func (p *poll) beginQuery(jobs scope) (early bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if early = p.isEarlyLocked(); early {
		p.early = time.Time{}
	}
	p.lastQuery, p.soon = time.Now(), false
	if jobs == allJobs {
		p.lastList, p.stale = p.lastQuery, false
	}
	return early
}

// QuerySoon requests the next query as soon as Limits.QueryMin allows: the user acted, or
// something is about to change.
func (p *poll) QuerySoon() {
	p.mu.Lock()
	p.soon = true
	p.mu.Unlock()
	latest.Signal(p.wake)
}

// changed marks the last answer as stale, because we changed a job.
func (p *poll) changed() {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	p.QuerySoon()
}

func (p *poll) scheduleNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheduleNextLocked()
}

// scheduleNextLocked sets when the next periodic query is due.
func (p *poll) scheduleNextLocked() {
	p.due = time.Now().Add(p.host.Limits.WithJitter(p.queryIntervalLocked()))
}

// queryIntervalLocked is long only if every watched job has waited for long and none is
// expected to start soon.
func (p *poll) queryIntervalLocked() time.Duration {
	if p.outage.times > 0 {
		return min(p.host.Limits.Query<<min(p.outage.times-1, 8), max(p.host.Limits.Query, p.host.Limits.QuerySlow))
	}
	for x := range p.watches {
		if !x.passive && x.isActiveLocked() && (!x.missed.IsZero() || !p.waitsLong(x.job)) {
			return p.host.Limits.Query
		}
	}
	return p.host.Limits.QuerySlow
}

func (p *poll) waitsLong(job api.Job) bool {
	if !job.State.Waiting() || job.Submitted.IsZero() || time.Since(job.Submitted) < p.host.Limits.SlowAfter {
		return false
	}
	toStart := time.Until(job.ExpectedStart)
	return job.ExpectedStart.IsZero() || toStart < -p.host.Limits.QuerySlow || toStart > p.host.Limits.QuerySlow
}

// outage is a time in which the scheduler does not answer.
type outage struct {
	since time.Time
	times int
}

// recordAnswer ends an outage of the scheduler.
func (p *poll) recordAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outage.times > 0 {
		p.host.Log.Info("the scheduler responds again", "silentSince", p.outage.since)
	}
	p.outage = outage{}
}

// recordFailure records a failed query. All watches ignore a lost connection, since the host's
// state shows it.
func (p *poll) recordFailure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.early, p.soon = time.Time{}, false
	if !errors.Is(err, remote.ErrNoAnswer) {
		p.due = time.Now().Add(p.host.Limits.WithJitter(p.host.Limits.Query))
		return
	}
	p.lastQuery = time.Now() // also if the scheduler is not even identified
	if p.outage.times == 0 {
		p.outage.since = time.Now()
	}
	p.outage.times++
	name := cmp.Or(p.host.knownName(), "the scheduler")
	for x := range p.watches {
		if x.isActiveLocked() && (!x.known || p.outage.times > 1) { // one that knows its job ignores the first failure
			job := x.job // with what is known of it
			job.State, job.Reason, job.Hint = api.JobUnknown, "NoAnswer", p.outage.hint(name, job)
			x.publishLocked(job)
		}
	}
	p.scheduleNextLocked()
}

// hint says since when there is no answer, and where the job was.
func (s outage) hint(scheduler string, last api.Job) string {
	text := fmt.Sprintf("%s has not responded since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs keep running"
}
