package agent

import (
	"context"
	"fmt"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel"
)

// reminder reminds a person of the job's time limit before it is reached.
type reminder struct {
	session *session
	updates chan api.Job

	end  time.Time     // the limit of the last reminder
	mark time.Duration // and how long before it
}

func newReminder(s *session) *reminder {
	return &reminder{session: s, updates: make(chan api.Job, 1)}
}

// serve reminds until ctx ends.
func (r *reminder) serve(ctx context.Context) {
	var job api.Job
	for {
		next := ctxtime.WallTimer(r.remind(job, time.Now()))
		select {
		case job = <-r.updates:
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// remind sends a reminder that is due, once, and returns when the next is.
func (r *reminder) remind(job api.Job, now time.Time) time.Time {
	mark, next := facts.PassedMark(r.session.agent.limits.Remind, job, now)
	r.session.Change(func(*facts.Facts) {}) // the cause depends on the time
	// Schedulers round: an end that moved by seconds is the same.
	reminded := r.mark > 0 && job.End.Sub(r.end).Abs() < time.Minute && r.mark <= mark
	if mark > 0 && !reminded {
		r.end, r.mark = job.End, mark
		r.session.Notify(api.NoticeTimeLimit, fmt.Sprintf("%s ends in %s: save your work, the time limit is %s", r.session.name, api.DurationText(job.End.Sub(now)), api.ClockText(job.End, now)))
	}
	return next
}

// notify publishes a notice about the session.
func (s *session) Notify(kind api.NoticeKind, text string) {
	s.agent.log.Info("notice", "session", s.name, "text", text)
	s.agent.hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Kind: kind, Session: s.name, Text: text}})
}

// certificates reports each login certificate that expires soon, once. Hosts change one
// at a time, so it needs no lock.
type certificates struct{ reported map[string]time.Time }

// notice is the notice for a host that has changed; nil if there is nothing to report.
func (c *certificates) notice(h api.Host, now time.Time) *api.Notice {
	ends := h.CertificateEnds
	if h.State != api.HostUp || ends.IsZero() || ends.Sub(now) > tunnel.CertificateWarning || c.reported[h.Alias].Equal(ends) {
		return nil
	}
	if c.reported == nil {
		c.reported = map[string]time.Time{}
	}
	c.reported[h.Alias] = ends
	return &api.Notice{
		Kind: api.NoticeNeedsLogin, Host: h.Alias,
		Text: fmt.Sprintf("your certificate for %s expires soon: after %s, a lost connection needs you to log in again with a new certificate", h.Alias, api.ClockText(ends, now)),
	}
}
