package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// submissions are the jobs of a session: its own, the one that follows it, and those left behind.
// Each is recorded before it is submitted, and until the scheduler has said what became of it. The
// record is in the store; what follows from it for the session is shown with it.
type submissions struct {
	session *session

	mu       sync.Mutex
	observed map[observation]*jobwatch.Watch // while no attempt follows them
	ended    state.Submissions               // whose jobs were cancelled since the last down
}

// list is the record as it is now.
func (l *submissions) list() state.Submissions { return l.session.saved().Submissions }

// current is the submission of the session's job.
func (l *submissions) current() state.Submission { return l.session.saved().Current() }

// next is the submission of the job that follows it.
func (l *submissions) next() state.Submission { return l.session.saved().Next() }

// adopt makes a job of an account, and what is known of its submission, the session's. The
// scheduler was asked then; zero if it has not said that the job exists.
func (l *submissions) adopt(job api.Job, sub state.Submission, account string, asked time.Time) error {
	s := l.session
	waits, err := s.agent.history.EarlierWaits(s.host(), s.name, job.Name)
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	if job.Seen.IsZero() { // it was found or submitted just now
		job.Seen = time.Now().Round(0).UTC()
	}
	sub.Role, sub.Job, sub.Host, sub.Account, sub.Doubt, sub.Missed = state.RoleJob, &job, s.host(), account, false, time.Time{}
	present := s.presentIn(sub)
	was := l.current().Job
	isNew := was == nil || was.Ref() != job.Ref()
	s.mu.Lock()
	var conflict error
	if s.facts.Asked.With != nil {
		if conflict = present.conflict(job, s.facts.Asked.With); conflict != nil {
			s.facts.Asked = submit.Plan{}
		}
	}
	s.facts.Looking, s.facts.Submitting, s.facts.Waits, s.facts.Over = false, false, waits, state.Submission{}
	s.facts.SettlePermit(jobwatch.Report{Job: job, Asked: asked})
	err = s.recordLocked(func(r *state.Session) {
		if isNew {
			r.Asked = 0
		}
		r.Submissions, r.Asked = r.Submissions.Put(sub), cmp.Or(timeLimit(job), r.Asked)
	})
	s.mu.Unlock()
	if isNew {
		l.rememberChoices(sub.With)
		signal(s.agent.unsettled) // of the job that this one has replaced
	}
	return cmp.Or(err, conflict)
}

// choose makes one of several jobs of the session's name its job; "" is none.
func (l *submissions) choose(ref string) error {
	if ref == "" {
		return nil
	}
	s := l.session
	candidates := s.known().Candidates
	i := slices.IndexFunc(candidates, func(j api.Job) bool { return j.Ref() == ref })
	if i < 0 {
		return api.Errorf(api.CodeUsage, "job %s is not one of the jobs that session %s can use", ref, s.name).
			WithHint("`tunctl attach %s %s` opens any job", s.host(), ref)
	}
	chosen := state.Submission{Role: state.RoleJob, Job: &candidates[i], Host: s.host(), Account: s.agent.pool.Host(s.host()).Account()}
	return s.record(func(r *state.Session) { r.Submissions = r.Submissions.Put(chosen) })
}

// rememberChoices adds the choices of a run to those of earlier runs, which a second session
// shares with the one of the config.
func (l *submissions) rememberChoices(with api.Choices) {
	if len(with) == 0 {
		return
	}
	base := l.session
	if base.of != "" {
		if first, err := base.agent.sessions.find(base.of); err == nil {
			base = first
		}
	}
	_ = base.record(func(r *state.Session) { r.AddRecent(with) })
}

// change changes what is remembered of one submission.
func (l *submissions) change(sub state.Submission, change func(*state.Submission)) {
	_ = l.session.record(func(r *state.Session) { r.Submissions = r.Submissions.Change(sub, change) })
}

// setJob records the current state of the session's job. One that is not on record any more is over,
// which was noticed elsewhere.
func (l *submissions) setJob(job api.Job) (onRecord bool) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if job.State.Ended() { // before anybody asks for the page of a job that is over
		s.facts.Answers, s.facts.Doing = false, facts.Doing{Text: fmt.Sprintf("job %s has ended", job.ID)}
	}
	_ = s.recordLocked(func(r *state.Session) {
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

// asRecorded is a job as it was reported or, if its number is another job's by now, the recorded
// one as ended.
func (l *submissions) asRecorded(job api.Job) api.Job {
	sub := l.list().Of(job)
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

// drop forgets a submission whose job is over, and adds it to the history before that
// is shown. The job of a session is shown until there is another.
func (l *submissions) drop(sub state.Submission, job api.Job) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	var rec state.Session
	err := s.agent.store.Update(s.name, func(r *state.Session) { rec, r.Submissions = *r, r.Submissions.Drop(sub) })
	if i := slices.IndexFunc(rec.Submissions, sub.Is); i >= 0 {
		if sub = rec.Submissions[i]; sub.Live() { // else it was added already
			l.addRunLocked(rec, job)
		}
	}
	if shown := s.facts.Job(); shown != nil && shown.Ref() == job.Ref() && s.facts.Wanted() {
		if shown.State.Ended() {
			job = *shown
		}
		sub.Job = &job
		s.facts.Over = sub
	}
	_ = s.recordedLocked(err)
}

// promote makes the job that follows the session's.
func (l *submissions) promote(sub state.Submission) {
	s := l.session
	sub.Role = state.RoleJob
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.Served, s.facts.Submitting, s.facts.Doing, s.facts.Over = false, false, facts.Doing{}, state.Submission{}
	s.facts.EndPermit() // a person who asked for a job meanwhile has this one
	_ = s.recordLocked(func(r *state.Session) { r.Submissions, r.Asked = r.Submissions.Put(sub), timeLimit(*sub.Job) })
	signal(s.agent.unsettled) // of the job before it, which may not be over
}

// isFollowed reports whether a job is submitted to follow a job, or none is to be: also if the job is
// no longer the session's, since it was cancelled.
func (l *submissions) isFollowed(job api.Job) bool {
	rec := l.session.saved()
	current, next := rec.Current(), rec.Next()
	if current.Job == nil || current.Job.Ref() != job.Ref() || current.Cancel {
		return true
	}
	return rec.Unfollowed == nextTag(job, rec.Asked) || next.Live() && (next.Job != nil || next.Doubt)
}

// leaveUnfollowed has no job submitted to follow a job, unless it is extended.
func (l *submissions) leaveUnfollowed(job api.Job) {
	_ = l.session.record(func(r *state.Session) { r.Unfollowed = nextTag(job, r.Asked) })
}

// withEnded is a session with the jobs that its down has ended.
func (l *submissions) withEnded(now api.Session) api.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sub := range l.ended {
		job := facts.EndedBy(*sub.Job, time.Now())
		job.State = api.JobCancelled
		if sub.Role == state.RoleJob {
			now.Job = &job
			continue
		}
		if sub.Role == state.RoleNext {
			now.Next = nil
		}
		now.Others = append(slices.DeleteFunc(slices.Clone(now.Others), func(j api.Job) bool { return j.Ref() == job.Ref() }), job)
	}
	return now
}

// cancelNext has the next job cancelled, if any, and says why. If it has not appeared yet, it is
// cancelled then. It returns what was done, in words.
func (l *submissions) cancelNext(why string) string {
	next := l.next()
	if !next.Live() || next.Cancel {
		return ""
	}
	l.change(next, func(x *state.Submission) { x.Cancel, x.Role = true, state.RoleOther })
	signal(l.session.agent.unsettled)
	what := "the job that was to follow is cancelled if it appears"
	if next.Job != nil {
		what = fmt.Sprintf("job %s, which was to follow, is cancelled", next.Job.ID)
	}
	l.session.notify("", why+": "+what)
	return what
}

// lost records that a submit command gave no job. One that was refused for certain is
// forgotten, and its tag not used again.
func (l *submissions) lost(sub state.Submission, err error) {
	s := l.session
	if e, ok := asAPI(err); ok && e.Code == api.CodeSubmit {
		_ = s.record(func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) })
		if err := s.agent.store.DropAssistantJob(sub.Tag); err != nil {
			s.agent.log.Warn("a job that was refused still counts for assistants", "tag", sub.Tag, "err", err)
		}
		return
	}
	l.change(sub, func(x *state.Submission) { x.When, x.Doubt = time.Now(), x.Doubt || isUncertain(err) })
	signal(s.agent.unsettled)
}

// unmade records that no submit command was run for a submission. One that continues another may have
// a job by that one's command.
func (l *submissions) unmade(sub state.Submission, continues bool) {
	_ = l.session.record(func(r *state.Session) {
		if r.Submissions = r.Submissions.Change(sub, func(x *state.Submission) { x.When = time.Now() }); !continues {
			r.Submissions = r.Submissions.Drop(sub)
		}
	})
	signal(l.session.agent.unsettled)
}

// refuseUnreached makes a refusal of a scheduler that a submission did not reach: who waits for the
// command can try again later.
func refuseUnreached(err error) error {
	if e, ok := errors.AsType[*jobwatch.UnreachedError](err); ok {
		return api.Errorf(api.CodeSubmit, "the scheduler did not accept the job: %s", e.Words).
			WithHint("the scheduler is down or cannot be reached: try again later")
	}
	return err
}

// recordRun adds a job that is over to the history.
func (l *submissions) recordRun(job api.Job) {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	l.addRunLocked(l.session.saved(), job)
}

// addRunLocked adds a job that is over to the history, with what is remembered of the session. A
// history that cannot be written stops nothing.
func (l *submissions) addRunLocked(rec state.Session, job api.Job) {
	s := l.session
	now := time.Now()
	job = facts.EndedBy(job, now)
	job.Script, job.Seen = "", time.Time{}
	sub, asked := rec.Submissions.Of(job), rec.Asked
	if sub.Job != nil && sub.Role != state.RoleJob {
		asked = timeLimit(*sub.Job)
	}
	gpus, _ := strconv.Atoi(cmp.Or(sub.With["gpus"], s.cfg.With["gpus"]))
	nodes, queues := 0, slices.AppendSeq([]string{job.Queue}, maps.Values(s.agent.source(s.cfg).Values(sub.With)))
	if site, ok := s.agent.settings.Site(s.cfg.Host); ok {
		if whole, _ := site.ChargesNodes(queues...); whole {
			nodes = max(1, len(jobwatch.Nodes(job)))
		}
	}
	run := api.Run{
		Session: s.name, Host: s.cfg.Host, Job: job, Why: api.Redact(facts.EndText(&job, now)), Noted: now,
		With: sub.With, Asked: asked, GPUs: gpus, Nodes: nodes, Idle: int64(s.meter.IdleTime(job.Ref()).Seconds()),
	}
	if err := s.agent.history.Add(run); err != nil {
		s.agent.log.Warn("cannot write the history", "err", err)
	}
}

// timeLimit is the time limit of a running job, in seconds; 0 if it is not known.
func timeLimit(job api.Job) int64 {
	if job.State != api.JobRunning || job.Start.IsZero() || !job.End.After(job.Start) {
		return 0
	}
	return int64(job.End.Sub(job.Start).Seconds())
}
