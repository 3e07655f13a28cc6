package run

import (
	"context"
	"fmt"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
)

// reminder reminds the user of the job's time limit before it is reached.
type reminder struct {
	owner   Owner
	session string
	marks   []time.Duration // how long before its end
	updates chan api.Job

	end  time.Time     // the limit of the last reminder
	mark time.Duration // and how long before it
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
	mark, next := facts.PassedMark(r.marks, job, now)
	r.owner.Change(func(*facts.Facts) {}) // the cause depends on the time
	// Schedulers round: an end that moved by seconds is the same.
	reminded := r.mark > 0 && job.End.Sub(r.end).Abs() < time.Minute && r.mark <= mark
	if mark > 0 && !reminded {
		r.end, r.mark = job.End, mark
		r.owner.Notify(api.NoticeTimeLimit, fmt.Sprintf("%s ends at %s: save your work, the time limit of its job is near", r.session, api.ClockText(job.End, now)))
	}
	return next
}
