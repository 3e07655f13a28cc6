// Package session has the sessions by name, and what each of them is: what is wanted, the attempt to bring
// it up and keep it up, its pages and forwards. Its jobs are package ledger's, a run of its job is package
// run's. Only package facts decides the state of a session, and only session.go enters it.
//
// up.go has the steps from "up" to a followed job, from top to bottom.
package session

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/logs"
	"tunctl/internal/agent/run"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// requester is who asked for a session to be up.
type requester int

const (
	byPerson requester = iota // is told at once what fails; outranks the agent
	byAgent                   // for a session that it remembers: keeps trying
)

// origin is where a session comes from.
type origin int

const (
	fromConfig origin = iota // its section of the config
	second                   // the section of another session, with its own job and ports
	attached                 // a job that was started by hand
	orphaned                 // a job whose section is no longer in the config
	adhoc                    // forwards that are in no config: they end with its down
)

// Session is what a person brings up by name, from up to down.
type Session struct {
	parts  *Parts
	Name   string
	acting sync.Mutex   // one start or stop at a time
	downs  atomic.Int64 // how often it was taken down: a request from before one is over
	origin origin
	Of     string // the session of the config that this one is a second of; "" if it is none
	// jobUpdates carries the job as something other than the watch has seen it.
	jobUpdates chan api.Job
	Jobs       *ledger.Ledger
	meter      *usage.Meter                // measures what its job uses
	inside     atomic.Int32                // how many shells, editors and copies are inside its job
	nodes      atomic.Pointer[jobnode.Run] // of the job, while it is followed

	mu      sync.Mutex
	cfg     configs.Session
	facts   facts.Facts
	current api.Session // as last entered
	pages   pages
	attempt *attempt // the attempt in progress
	watch   *jobwatch.Watch
	// observed are the jobs that no attempt follows.
	observed map[observation]*jobwatch.Watch
}

func newSession(a *Parts, cfg configs.Session, from origin, of string) *Session {
	s := &Session{parts: a, Name: cfg.Name, origin: from, Of: of, cfg: cfg, jobUpdates: make(chan api.Job, 1), observed: map[observation]*jobwatch.Watch{}}
	s.Jobs = ledger.New(ledger.Session{Name: s.Name, Of: of, OneJob: s.byJob()}, s, a.ledgerOptions())
	rec := a.Store.Session(cfg.Name)
	s.facts = facts.Facts{Name: cfg.Name, Saved: rec, Host: api.Host{Alias: cfg.Host}}
	s.current = lastKnown(cfg, rec, time.Now())
	s.meter = usage.NewMeter(s.Name, measured{s}, a.Usage, a.Limits.Usage, a.Log)
	return s
}

// Config is the session's config as it was taken for the attempt in progress.
func (s *Session) Config() configs.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// Host is the alias of its host.
func (s *Session) Host() string { return s.Config().Host }

// Status is the session with its current counters.
func (s *Session) Status() api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.current
	st.Forwards, st.Websockets = s.pages.forwards.Status(), s.websocketsLocked()
	if nodes := s.nodes.Load(); nodes != nil {
		st.Held = nodes.Held() // what waits changes all the time
	}
	st.Warnings = s.warningsLocked(st)
	if st.State == api.SessionDown { // the time limit of its job may have passed since
		v := s.facts.Derive(time.Now())
		st.Cause, st.Hint = s.redactLocked(v.Cause), s.redactLocked(v.Hint)
	}
	return st
}

// Idle is how long a job was not used.
func (s *Session) Idle(ref string) time.Duration { return s.meter.IdleTime(ref) }

// start brings the session up unless an attempt is in progress. With permits, a job may be
// submitted, for the command that waits, if any, and with the choices of the plan, if any. The client, if
// any, gets the questions of a login. It returns the state right after; events older than at are
// about the time before.
func (s *Session) start(who requester, permits bool, waiter, client string, plan submit.Plan) (now api.Session, at time.Time) {
	s.acting.Lock()
	defer s.acting.Unlock()
	return s.startActing(who, permits, waiter, client, plan)
}

// StartFor starts the session for a client of the user, without a submission.
func (s *Session) StartFor(client string) api.UpResponse {
	now, at := s.start(byPerson, false, "", client, submit.Plan{})
	s.parts.Sessions.Resume()
	return api.UpResponse{Session: now, At: at}
}

// startUnlessDown is start for a person whose request began when the session had been taken down so
// often: a down since then ends the request.
func (s *Session) startUnlessDown(downs int64, permits bool, waiter, client string, plan submit.Plan) (api.UpResponse, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if s.downs.Load() != downs {
		return api.UpResponse{}, api.Errorf(api.CodeFailed, "%s was taken down meanwhile", s.Name).
			WithHint("`tunctl up %s` starts it", s.Name)
	}
	now, at := s.startActing(byPerson, permits, waiter, client, plan)
	return api.UpResponse{Session: now, At: at}, nil
}

func (s *Session) startActing(who requester, permits bool, waiter, client string, plan submit.Plan) (now api.Session, at time.Time) {
	s.parts.Sessions.keep(s)
	_ = s.record(func(r *state.Session) { r.Wanted, r.Failure = true, nil })
	host := s.parts.Hosts.Pool.Host(s.Host())
	connectFor(host, who, client)
	s.mu.Lock()
	defer s.mu.Unlock()
	at = time.Now()
	if s.attempt != nil {
		s.attempt.who, s.attempt.client = min(s.attempt.who, who), client
		if permits && s.current.State != api.SessionReady { // whether it has a job is up to the scheduler
			s.attempt.grantLocked(waiter)
			if plan.With != nil {
				s.facts.Asked = plan
			}
			if s.watch != nil {
				s.watch.QuerySoon()
			}
		}
		// The response has the current state: the event that the host is dialled again may
		// not have arrived yet.
		s.facts.Host = host.Status()
		s.enterLocked()
		return s.current, at
	}
	r := s.newAttemptLocked(host, who, client)
	s.facts.Asked = plan
	if permits {
		r.grantLocked(waiter)
	}
	r.launchLocked()
	return s.current, at
}

// connectFor has a host connected for a requester.
func connectFor(host *tunnel.Host, who requester, client string) {
	if who == byPerson {
		host.UpFor(client)
	} else {
		host.Want()
	}
}

// InProgress reports whether an attempt is in progress.
func (s *Session) InProgress() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt != nil
}

// Reconfigure takes the current settings from the config, unless an attempt is in
// progress.
func (s *Session) Reconfigure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		s.reconfigureLocked()
	}
}

// reconfigureLocked takes the current settings from the config, and reports whether the
// host is another.
func (s *Session) reconfigureLocked() bool {
	was := s.cfg.Host
	s.cfg = s.configuredLocked()
	return s.cfg.Host != was
}

// configuredLocked are the session's settings as the config has them now.
func (s *Session) configuredLocked() configs.Session {
	cfg, ok := s.parts.Settings.Config().Session(cmp.Or(s.Of, s.Name))
	if !ok || s.origin != fromConfig && s.origin != second {
		return s.cfg
	}
	if s.origin == second {
		cfg = secondConfig(cfg, s.Name)
	}
	return cfg
}

// warningsLocked say what a user should know about a session that is up.
func (s *Session) warningsLocked(now api.Session) (texts []string) {
	if !now.IsUp() {
		return nil
	}
	if text := s.parts.Store.FullText(s.cfg.Host); text != "" {
		texts = append(texts, text)
	}
	if now.RunsJob() && s.facts.FullDisk {
		texts = append(texts, fmt.Sprintf("the log of job %s says that a disk or your quota on %s is full: free disk space; `tunctl quota %[2]s` shows your usage", now.Job.ID, s.cfg.Host))
	}
	if s.attempt != nil && !reflect.DeepEqual(s.cfg, s.configuredLocked()) {
		texts = append(texts, fmt.Sprintf("[session.%s] was edited while %s was up: `tunctl down %[2]s`, then `tunctl up %[2]s` uses the new settings; a job that runs keeps its own", cmp.Or(s.Of, s.Name), s.Name))
	}
	return texts
}

// newAttemptLocked prepares an attempt with the current config. Without a person it can
// only find an existing job.
func (s *Session) newAttemptLocked(host *tunnel.Host, who requester, client string) *attempt {
	if s.reconfigureLocked() {
		host = s.parts.Hosts.Pool.Host(s.cfg.Host)
		connectFor(host, who, client)
	}
	needsJob := s.hasJobLocked()
	s.facts = facts.Facts{
		Name: s.Name, Saved: s.Saved(), Started: true, Looking: needsJob, NeedsJob: needsJob, Host: host.Status(), Remind: s.parts.Limits.Remind,
		Permit: s.facts.Permit, Asked: s.facts.Asked,
	}
	s.facts.Served = who == byAgent && s.facts.Saved.Current().Served // clients wait for it, as after a lost connection
	return &attempt{session: s, who: who, client: client, host: host, done: make(chan struct{})}
}

// requestedBy is who asked for the attempt in progress.
func (s *Session) requestedBy() requester {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return byAgent
	}
	return s.attempt.who
}

// byJob reports whether the session is for one job, which is recognised by its ID alone, and
// never replaced by a submission.
func (s *Session) byJob() bool { return s.origin == attached || s.origin == orphaned }

func (s *Session) hasJobLocked() bool { return s.byJob() || s.cfg.Job != "" || s.cfg.Submit != "" }

// hasPageLocked reports whether the session's job serves a page.
func (s *Session) hasPageLocked() bool { return s.hasJobLocked() && s.cfg.App != configs.ShellApp }

// HasJob reports whether the session is for a job, and not for forwards only.
func (s *Session) HasJob() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasJobLocked()
}

// OnlyForwards is the error for the job or the page of a session without them.
func OnlyForwards(session string) *api.Error {
	return api.Errorf(api.CodeUsage, "session %s has only forwards: no job and no page", session).
		WithHint("`tunctl status %s` shows where it listens", session)
}

// Downs is how often the session was taken down.
func (s *Session) Downs() int64 { return s.downs.Load() }

// Samples are what its job used in the last hour.
func (s *Session) Samples() []api.Usage { return s.meter.Samples() }

// Enter says that a shell, an editor or a copy is inside the job, until the function that it returns is called.
func (s *Session) Enter() (leave func()) {
	s.inside.Add(1)
	return func() { s.inside.Add(-1) }
}

// Nodes are those of the job, while it is followed; nil if it is not.
func (s *Session) Nodes() *jobnode.Run { return s.nodes.Load() }

// Stop takes the session down and, with cancel, ends its jobs too. The wish to end them is saved
// first, so that an up need not wait for the end, and no interruption loses it.
func (s *Session) Stop(ctx context.Context, cancel bool) (api.Session, error) {
	s.acting.Lock()
	s.downs.Add(1)
	s.halt()
	s.Jobs.BeginDown()
	s.Change(func(f *facts.Facts) { *f = facts.Facts{Name: s.Name, Host: f.Host} })
	_ = s.record(func(r *state.Session) {
		r.Wanted, r.Failure, r.Added, r.Opened = false, nil, nil, nil
		if cancel {
			r.Submissions = r.Submissions.CancelAll(time.Now())
		}
	})
	s.acting.Unlock()
	s.observe()
	if !cancel {
		return s.Status(), nil
	}
	defer signal(s.parts.unsettled) // what could not be ended now
	err := s.recoverToEnd(ctx)
	if err == nil {
		err = s.Jobs.End(ctx)
	}
	return s.Jobs.WithEnded(s.Status()), err
}

// halt ends the attempt in progress and closes the listeners, except for an open tab of its page.
func (s *Session) halt() {
	s.mu.Lock()
	s.facts.Started = false
	s.enterLocked()
	r, open, options := s.attempt, s.pages.forwards, s.forwardOptionsLocked()
	s.attempt, s.pages.forwards = nil, nil
	s.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done // every wait of the attempt has its ctx
	}
	s.parts.Kept.Keep(s.parts.Ctx, open, options)
}

// Facts are the facts as they are now.
func (s *Session) Facts() facts.Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts
}

// Change changes facts, and enters the state that follows from all of them.
func (s *Session) Change(apply func(*facts.Facts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	apply(&s.facts)
	s.enterLocked()
}

// record is the one writer of what survives a restart, once a session exists, and enters the state
// that follows from it. If the file cannot be written, the session continues and says so; a caller
// that must not continue checks the error.
func (s *Session) record(change func(*state.Session)) error {
	return s.Record(func(*facts.Facts) {}, change)
}

// Record changes facts too, in the same step.
func (s *Session) Record(apply func(*facts.Facts), change func(*state.Session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	apply(&s.facts)
	return s.recordLocked(change)
}

func (s *Session) recordLocked(change func(*state.Session)) error {
	err := s.parts.Store.Update(s.Name, change)
	if err != nil {
		s.parts.Log.Error("cannot save the session", "session", s.Name, "err", err)
	}
	s.facts.Unsaved = err
	s.enterLocked()
	return err
}

// Saved is what is remembered of the session.
func (s *Session) Saved() state.Session { return s.parts.Store.Session(s.Name) }

// enterLocked is the one place that enters a state: it sets since when and why,
// publishes the state, and opens or closes the forwards accordingly.
func (s *Session) enterLocked() {
	if s.parts.Sessions.isReplaced(s) {
		return // what comes late would be shown as that of the other one
	}
	now := time.Now()
	maySubmit := s.cfg.Submit != "" && s.facts.Permit.Live(now)
	s.facts.Listeners, s.facts.Saved = s.pages.forwards.HostListeners(), s.Saved()
	s.facts.Lapsed = s.attempt != nil && s.wouldSubmitLocked() && !maySubmit
	v := s.facts.Derive(now)
	if v.State == api.SessionReady {
		s.facts.Served = true
		s.facts.EndPermit() // its job answers
	}
	next := api.Session{
		Name: s.Name, Host: s.cfg.Host, App: s.cfg.App, Of: s.Of, With: s.facts.Choices(), Recent: s.RecentChoices(),
		State: v.State, Cause: s.redactLocked(v.Cause), Hint: s.redactLocked(v.Hint), Code: v.Code,
		Asked:     v.Asked || v.State == api.SessionEnded && s.facts.Cancelled(),
		MaySubmit: maySubmit && v.State != api.SessionReady,
		Idle:      s.facts.Idle && facts.IsLive(s.facts.Job()),
		Since:     s.current.Since, Candidates: s.facts.Candidates, Endpoint: s.facts.Endpoint,
	}
	s.facts.ShowJobs(&next)
	if v.State != s.current.State {
		next.Since = now
	}
	if v.State == api.SessionReconnecting || v.State == api.SessionConnecting {
		next.NotRespondingSince = s.facts.Host.NotRespondingSince
	}
	if nodes := s.nodes.Load(); nodes != nil {
		next.Held = nodes.Held()
	}
	next.Warnings = s.warningsLocked(next)
	to := s.targetsLocked(v.State == api.SessionReady)
	to.Why = s.facts.Reason(v, next.Since, now)
	s.pages.forwards.Lead(to)
	if s.pages.forwards == nil {
		s.parts.Kept.Explain(s.Name, to.Why)
	}
	next.Endpoints, next.Websockets = s.pages.endpoints(), s.websocketsLocked()
	page := s.pages.forwards.OfPage("")
	switch {
	case s.facts.Link != "":
		next.URL = s.facts.Link
	case page != nil:
		next.Local = page.Local.Addr().String()
		if s.facts.Endpoint != nil {
			next.URL = s.facts.Endpoint.PageURL(page.Local.URLHost()).String()
		}
	}
	was := s.current
	was.Forwards = nil // their counters change all the time
	if reflect.DeepEqual(next, was) {
		return
	}
	next.Forwards = s.pages.forwards.Status()
	if next.State != s.current.State {
		s.parts.Log.Info("session", "name", s.Name, "state", next.State, "cause", api.WithoutLogin(next.Cause))
	}
	s.current = next
	published := next
	s.parts.Hub.Publish(api.Event{Type: api.EventSession, Time: now, Session: &published})
}

func (s *Session) redactLocked(text string) string {
	var tokens []api.Secret
	if s.facts.Endpoint != nil {
		tokens = append(tokens, s.facts.Endpoint.Secrets()...)
	}
	return api.Redact(text, append(tokens, s.pages.secrets()...)...)
}

// CaughtUp reports whether the session shows its job as the scheduler last reported it.
func (s *Session) CaughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endUnrecordedLocked() {
		return false
	}
	job := s.facts.Job()
	if s.attempt == nil || s.watch == nil || job == nil {
		return true
	}
	reported := s.watch.Job()
	reported.Seen = job.Seen
	return reported.ID != job.ID || reported.State == api.JobUnknown || !reported.State.Ended() && reflect.DeepEqual(reported, *job)
}

// JobLog is where the log of the session's job is.
func (s *Session) JobLog() logs.Log {
	cfg := s.Config()
	return run.LogOf(cfg, s.parts.Hosts.Pool.Host(cfg.Host))
}

// Notify publishes a notice about the session.
func (s *Session) Notify(kind api.NoticeKind, text string) {
	s.parts.Log.Info("notice", "session", s.Name, "text", text)
	s.parts.Hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Kind: kind, Session: s.Name, Text: text}})
}
