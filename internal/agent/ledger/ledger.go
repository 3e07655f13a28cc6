// Package ledger has the jobs of a session: its own, the one that follows it, and those left behind.
// It finds, submits, follows, extends, cancels and settles them. Each is on record before it is
// submitted, and until the scheduler has said what became of it. The record is in the store; what
// follows from it for the session is shown with it, by the session, its Owner.
package ledger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// Owner is the session that has the jobs. It alone changes its facts and its record, and shows what
// follows.
type Owner interface {
	Config() configs.Session
	Facts() facts.Facts
	Status() api.Session
	// InProgress reports whether an attempt to bring it up is in progress, which follows its job.
	InProgress() bool
	// Idle is how long a job was not used.
	Idle(ref string) time.Duration
	// Change changes facts.
	Change(func(*facts.Facts))
	// Record changes facts and what survives a restart, as one step. If the record cannot be written,
	// the session continues and says so.
	Record(func(*facts.Facts), func(*state.Session)) error
	// Notify tells the user something once.
	Notify(api.NoticeKind, string)
}

// Session says whose jobs they are.
type Session struct {
	Name string
	Of   string // the session of the config that this one is a second of; "" if it is none
	// OneJob says that the session is for one job, which is recognised by its ID alone, and never
	// replaced by a submission.
	OneJob bool
}

// Base is the name of the session's section in the config.
func (s Session) Base() string { return cmp.Or(s.Of, s.Name) }

// Options are what all ledgers use.
type Options struct {
	Store    *state.Store
	History  *state.History
	Hosts    *hosts.Hosts
	Settings *settings.Settings
	Limits   Limits
	Log      *slog.Logger
	// Source is what a job with such a config is made from.
	Source func(configs.Session) *submit.Source
	// Unsettled is called when somebody has to look after a submission.
	Unsettled func()
	// Recover finds the jobs on a host again that are in no record.
	Recover func(ctx context.Context, host string) error
	// FreeName is a name for a second session.
	FreeName func(base string) string
	// Remember keeps the choices of a run for the next ones.
	Remember func(session string, with api.Choices)
}

// Limits bound what a ledger does without being asked.
type Limits struct {
	Jobs remote.Limits
	// KeepLead is how long before a job's end keep = true submits the next at the
	// latest, KeepPerDay how many it submits in a day, KeepRetry how soon it tries
	// again after a lost connection.
	KeepLead   time.Duration
	KeepPerDay int
	KeepRetry  time.Duration
}

// Ledger has the jobs of one session.
type Ledger struct {
	Session
	Options
	owner Owner

	mu    sync.Mutex        // one job is added to the history at a time
	ended state.Submissions // whose jobs were cancelled since the last down
}

// New returns the ledger of a session.
func New(s Session, owner Owner, o Options) *Ledger {
	return &Ledger{Session: s, Options: o, owner: owner}
}

// saved is what is remembered of the session.
func (l *Ledger) saved() state.Session { return l.Store.Session(l.Name) }

// List is the record as it is now.
func (l *Ledger) List() state.Submissions { return l.saved().Submissions }

// Current is the submission of the session's job.
func (l *Ledger) Current() state.Submission { return l.saved().Current() }

// next is the submission of the job that follows it.
func (l *Ledger) next() state.Submission { return l.saved().Next() }

func (l *Ledger) host() string { return l.owner.Config().Host }

func (l *Ledger) notify(format string, args ...any) { l.owner.Notify("", fmt.Sprintf(format, args...)) }

// ShowDoing says what happens within the session's state.
func (l *Ledger) ShowDoing(format string, args ...any) {
	l.owner.Change(func(f *facts.Facts) { f.Doing = facts.Doing{Text: fmt.Sprintf(format, args...)} })
}

// record changes what survives a restart.
func (l *Ledger) record(change func(*state.Session)) error {
	return l.owner.Record(func(*facts.Facts) {}, change)
}

// change changes what is remembered of one submission.
func (l *Ledger) change(sub state.Submission, change func(*state.Submission)) {
	_ = l.record(func(r *state.Session) { r.Submissions = r.Submissions.Change(sub, change) })
}

// adopt makes a job of an account, and what is known of its submission, the session's. The
// scheduler was asked then; zero if it has not said that the job exists.
func (l *Ledger) adopt(job api.Job, sub state.Submission, account string, asked time.Time) error {
	waits, err := l.History.EarlierWaits(l.host(), l.Name, job.Name)
	if err != nil {
		l.Log.Debug("cannot read the history", "err", err)
	}
	if job.Seen.IsZero() { // it was found or submitted just now
		job.Seen = time.Now().Round(0).UTC()
	}
	sub.Role, sub.Job, sub.Host, sub.Account, sub.Doubt, sub.Missed = state.RoleJob, &job, l.host(), account, false, time.Time{}
	present := l.presentIn(sub)
	was := l.Current().Job
	isNew := was == nil || was.Ref() != job.Ref()
	var conflict error
	err = l.owner.Record(func(f *facts.Facts) {
		if f.Asked.With != nil {
			if conflict = present.conflict(job, f.Asked.With); conflict != nil {
				f.Asked = submit.Plan{}
			}
		}
		f.Looking, f.Submitting, f.Waits, f.Over = false, false, waits, state.Submission{}
		f.SettlePermit(jobwatch.Report{Job: job, Asked: asked})
	}, func(r *state.Session) {
		if isNew {
			r.Asked = 0
		}
		r.Submissions, r.Asked = r.Submissions.Put(sub), cmp.Or(timeLimit(job), r.Asked)
	})
	if isNew {
		if len(sub.With) > 0 {
			l.Remember(l.Base(), sub.With)
		}
		l.Unsettled() // of the job that this one has replaced
	}
	return cmp.Or(err, conflict)
}

// Choose makes one of several jobs of the session's name its job; "" is none.
func (l *Ledger) Choose(ref string) error {
	if ref == "" {
		return nil
	}
	candidates := l.owner.Facts().Candidates
	i := slices.IndexFunc(candidates, func(j api.Job) bool { return j.Ref() == ref })
	if i < 0 {
		return api.Errorf(api.CodeUsage, "job %s is not one of the jobs that session %s can use", ref, l.Name).
			WithHint("`tunctl attach %s %s` opens any job", l.host(), ref)
	}
	chosen := state.Submission{Role: state.RoleJob, Job: &candidates[i], Host: l.host(), Account: l.Hosts.Pool.Host(l.host()).Account()}
	return l.record(func(r *state.Session) { r.Submissions = r.Submissions.Put(chosen) })
}

// SetJob records the current state of the session's job. One that is not on record any more is over,
// which was noticed elsewhere.
func (l *Ledger) SetJob(job api.Job) (onRecord bool) {
	_ = l.owner.Record(func(f *facts.Facts) {
		if job.State.Ended() { // before anybody asks for the page of a job that is over
			f.Answers, f.Doing = false, facts.Doing{Text: fmt.Sprintf("job %s has ended", job.ID)}
		}
	}, func(r *state.Session) {
		was := r.Current()
		if onRecord = was.Job != nil && was.Job.Ref() == job.Ref(); !onRecord {
			return
		}
		if job.Seen.IsZero() {
			job.Seen = was.Job.Seen // its log showed the change, and not the scheduler
		}
		r.Submissions = r.Submissions.Change(was, func(x *state.Submission) { x.Job = &job })
		r.Asked = cmp.Or(timeLimit(job), r.Asked)
	})
	return onRecord
}

// AsRecorded is a job as it was reported or, if its number is another job's by now, the recorded
// one as ended.
func (l *Ledger) AsRecorded(job api.Job) api.Job {
	sub := l.List().Of(job)
	switch {
	case sub.Job == nil:
		return job
	case sub.Matches(job, sub.Account):
		job.Name = cmp.Or(job.Name, sub.Job.Name) // a scheduler that does not respond tells neither
		job.Submitted = cmp.Or(job.Submitted, sub.Job.Submitted)
		return job
	}
	job = *sub.Job
	job.State, job.Reason, job.Hint = api.JobFinished, api.ReasonGone, "its number is another job's now"
	return job
}

// Drop forgets a submission whose job is over, and adds it to the history before that
// is shown. The job of a session is shown until there is another.
func (l *Ledger) Drop(sub state.Submission, job api.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.saved()
	i := slices.IndexFunc(rec.Submissions, sub.Is)
	if i < 0 {
		return // it was forgotten already, and is shown as it was then
	}
	if sub = rec.Submissions[i]; sub.Live() { // else it was added already
		l.addRunLocked(rec, job)
	}
	_ = l.owner.Record(func(f *facts.Facts) {
		shown := f.Job()
		if shown == nil || shown.Ref() != job.Ref() || !f.Wanted() {
			return
		}
		over := sub
		if over.Job = &job; shown.State.Ended() {
			over.Job = shown
		}
		f.Over = over
	}, func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) })
}

// promote makes the job that follows the session's.
func (l *Ledger) promote(sub state.Submission) {
	sub.Role = state.RoleJob
	_ = l.owner.Record(func(f *facts.Facts) {
		f.Served, f.Submitting, f.Doing, f.Over = false, false, facts.Doing{}, state.Submission{}
		f.EndPermit() // the user who asked for a job meanwhile has this one
	}, func(r *state.Session) { r.Submissions, r.Asked = r.Submissions.Put(sub), timeLimit(*sub.Job) })
	l.Unsettled() // of the job before it, which may not be over
}

// RecordRun adds a job that is over to the history.
func (l *Ledger) RecordRun(job api.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addRunLocked(l.saved(), job)
}

// addRunLocked adds a job that is over to the history, with what is remembered of the session. A
// history that cannot be written stops nothing.
func (l *Ledger) addRunLocked(rec state.Session, job api.Job) {
	cfg, now := l.owner.Config(), time.Now()
	job = facts.EndedBy(job, now)
	job.Script, job.Seen = "", time.Time{}
	sub, asked := rec.Submissions.Of(job), rec.Asked
	if sub.Job != nil && sub.Role != state.RoleJob {
		asked = timeLimit(*sub.Job)
	}
	gpus, _ := strconv.Atoi(cmp.Or(sub.With["gpus"], cfg.With["gpus"]))
	nodes, queues := 0, slices.AppendSeq([]string{job.Queue}, maps.Values(l.Source(cfg).Values(sub.With)))
	if site, ok := l.Settings.Site(cfg.Host); ok {
		if whole, _ := site.ChargesNodes(queues...); whole {
			nodes = max(1, len(jobwatch.Nodes(job)))
		}
	}
	run := api.Run{
		Session: l.Name, Host: cfg.Host, Job: job, Why: api.Redact(facts.EndText(&job, now)), Noted: now,
		With: sub.With, Asked: asked, GPUs: gpus, Nodes: nodes, Idle: int64(l.owner.Idle(job.Ref()).Seconds()),
	}
	if err := l.History.Add(run); err != nil {
		l.Log.Warn("cannot write the history", "err", err)
	}
}

// timeLimit is the time limit of a running job, in seconds; 0 if it is not known.
func timeLimit(job api.Job) int64 {
	if job.State != api.JobRunning || job.Start.IsZero() || !job.End.After(job.Start) {
		return 0
	}
	return int64(job.End.Sub(job.Start).Seconds())
}
