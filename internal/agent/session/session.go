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
	"tunctl/internal/latest"
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

// isJob reports whether a session is for one job, which is recognised by its ID alone, and
// never replaced by a submission.
func (o origin) isJob() bool { return o == attached || o == orphaned }

// Session is what the user brings up by name, from up to down.
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
	observer   *observer                   // of the jobs that no attempt follows
	Meter      *usage.Meter                // measures what its job uses
	nodes      atomic.Pointer[jobnode.Run] // of the job, while it is followed

	mu      sync.Mutex
	cfg     configs.Session
	facts   facts.Facts
	current api.Session // as last entered
	pages   pages
	attempt *attempt // the attempt in progress
	watch   *jobwatch.Watch
	told    struct { // of what runs inside the job
		until   time.Time // the end of the last interruption
		waiting int       // cells
	}
}

func newSession(a *Parts, cfg configs.Session, from origin) *Session {
	rec := a.Store.Session(cfg.Name)
	s := &Session{parts: a, Name: cfg.Name, origin: from, cfg: cfg, jobUpdates: make(chan api.Job, 1)}
	if from == second {
		s.Of = rec.Of
	}
	s.observer = &observer{session: s, watches: map[observation]*jobwatch.Watch{}}
	s.Jobs = ledger.New(ledger.Session{Name: s.Name, Of: s.Of, OneJob: from.isJob()}, s, a.ledgerOptions())
	s.facts = facts.Facts{Name: cfg.Name, Saved: rec, Host: api.Host{Alias: cfg.Host}}
	s.current = lastKnown(cfg, rec, time.Now())
	s.Meter = usage.NewMeter(s.Name, measured{s}, a.Usage, a.Limits.Usage, a.Log)
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
	st.Forwards = s.pages.forwards.Status()
	s.addChangingLocked(&st)
	if st.State == api.SessionDown { // the time limit of its job may have passed since
		v := s.facts.Derive(time.Now())
		secrets := s.pages.secrets(s.facts.Endpoint)
		st.Cause, st.Hint = api.Redact(v.Cause, secrets...), api.Redact(v.Hint, secrets...)
	}
	return st
}

// addChangingLocked adds what may change all the time.
func (s *Session) addChangingLocked(to *api.Session) {
	to.Websockets, to.Warnings = s.websocketsLocked(), s.warningsLocked(*to)
	nodes := s.nodes.Load()
	if nodes != nil {
		to.Held = nodes.Held()
	}
	to.Cells = s.facts.Cells(nodes.Cells(), time.Now())
}

// Idle is how long a job was not used.
func (s *Session) Idle(ref string) time.Duration { return s.Meter.IdleTime(ref) }

// request asks for a session to be up.
type request struct {
	who    requester
	client string // gets the questions of a login; "": none
	downs  int64  // how often the session had been taken down when it began: a down since then ends it
	// permits says that a job may be submitted, for the command that waits, if any, and with the
	// choices of the plan, if any.
	permits bool
	waiter  string
	plan    submit.Plan
}

// start brings the session up unless an attempt is in progress. It returns the state right after; events
// older than its time are about the time before.
func (s *Session) start(req request) (api.UpResponse, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if s.downs.Load() != req.downs {
		return api.UpResponse{}, api.Errorf(api.CodeFailed, "%s was taken down meanwhile", s.Name).
			WithHint("`tunctl up %s` starts it", s.Name)
	}
	s.parts.Sessions.keep(s)
	_ = s.record(func(r *state.Session) { r.Wanted, r.Failure = true, nil })
	host := s.parts.Hosts.Pool.Host(s.Host())
	connectFor(host, req.who, req.client)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	if s.attempt != nil {
		s.joinLocked(req)
		// The response has the current state: the event that the host is dialled again may
		// not have arrived yet.
		s.facts.Host = host.Status()
		s.enterLocked()
	} else {
		r := s.newAttemptLocked(host, req.who, req.client)
		s.facts.Asked = req.plan
		if req.permits {
			r.grantLocked(req.waiter)
		}
		r.launchLocked()
	}
	return api.UpResponse{Session: s.current, At: at}, nil
}

// joinLocked has the attempt in progress serve another request too.
func (s *Session) joinLocked(req request) {
	s.attempt.who, s.attempt.client = min(s.attempt.who, req.who), req.client
	if !req.permits || s.current.State == api.SessionReady { // whether it has a job is up to the scheduler
		return
	}
	s.attempt.grantLocked(req.waiter)
	if req.plan.With != nil {
		s.facts.Asked = req.plan
	}
	if s.watch != nil {
		s.watch.QuerySoon()
	}
}

// StartFor starts the session for a client of the user, without a submission.
func (s *Session) StartFor(client string) (api.UpResponse, error) {
	res, err := s.start(request{client: client, downs: s.Downs()})
	s.parts.Sessions.Resume()
	return res, err
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
	if now.RunsJob() && now.IdleEnd.After(time.Now()) {
		texts = append(texts, fmt.Sprintf("job %s is not used, and ends at %s (end_idle): save your notebooks; `tunctl extend --idle %s` keeps it", now.Job.ID, api.ClockText(now.IdleEnd, time.Now()), s.Name))
	}
	if s.attempt != nil && !reflect.DeepEqual(s.cfg, s.configuredLocked()) {
		texts = append(texts, fmt.Sprintf("[session.%s] was edited while %s was up: `tunctl down %[2]s`, then `tunctl up %[2]s` uses the new settings; those of the job apply to the next one: `tunctl down %[2]s --cancel` ends this one first", cmp.Or(s.Of, s.Name), s.Name))
	}
	return texts
}

// newAttemptLocked prepares an attempt with the current config. Without the user it can
// only find an existing job.
func (s *Session) newAttemptLocked(host *tunnel.Host, who requester, client string) *attempt {
	if s.reconfigureLocked() {
		host = s.parts.Hosts.Pool.Host(s.cfg.Host)
		connectFor(host, who, client)
	}
	needsJob := s.hasJobLocked()
	s.facts = facts.Facts{
		Name: s.Name, Saved: s.Saved(), Started: true, Looking: needsJob, NeedsJob: needsJob, Host: host.Status(), Remind: s.parts.Limits.Run.Remind,
		Permit: s.facts.Permit, Asked: s.facts.Asked,
	}
	s.facts.Served = who == byAgent && s.facts.Saved.Current().Served // clients wait for it, as after a lost connection
	return &attempt{Session: s, who: who, client: client, host: host, done: make(chan struct{})}
}

func (s *Session) hasJobLocked() bool {
	return s.origin.isJob() || s.cfg.Job != "" || s.cfg.Submit != ""
}

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
	s.observer.observe()
	if !cancel {
		return s.Status(), nil
	}
	defer latest.Signal(s.parts.unsettled) // what could not be ended now
	err := s.parts.Sessions.recoverToEnd(ctx, s)
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
	s.facts.Lapsed = s.attempt != nil && s.cfg.Submit != "" && !maySubmit && s.facts.Job() == nil && !facts.IsLive(s.facts.Saved.Current().Job)
	v := s.facts.Derive(now)
	if v.State == api.SessionReady {
		s.facts.Served = true
		s.facts.EndPermit() // its job answers
	}
	secrets := s.pages.secrets(s.facts.Endpoint)
	next := api.Session{
		Name: s.Name, Host: s.cfg.Host, App: s.cfg.App, Of: s.Of, With: s.facts.Choices(), Recent: s.RecentChoices(),
		State: v.State, Cause: api.Redact(v.Cause, secrets...), Hint: api.Redact(v.Hint, secrets...), Code: v.Code,
		Asked:     v.Asked || v.State == api.SessionEnded && s.facts.Cancelled(),
		MaySubmit: maySubmit && v.State != api.SessionReady,
		Idle:      s.facts.Idle && facts.IsLive(s.facts.Job()),
		IdleEnd:   s.facts.IdleEnd,
		Since:     s.current.Since, Candidates: s.facts.Candidates, Endpoint: s.facts.Endpoint,
	}
	s.facts.ShowJobs(&next)
	if v.State != s.current.State {
		next.Since = now
	}
	if v.State == api.SessionReconnecting || v.State == api.SessionConnecting {
		next.NotRespondingSince = s.facts.Host.NotRespondingSince
	}
	to := s.targetsLocked(v.State == api.SessionReady)
	to.Why = s.facts.Reason(v, next.Since, now)
	s.pages.forwards.Lead(to)
	if s.pages.forwards == nil {
		s.parts.Kept.Explain(s.Name, to.Why)
	}
	s.addChangingLocked(&next)
	next.Endpoints = s.pages.endpoints()
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

// CaughtUp reports whether the session shows its job as the scheduler last reported it.
func (s *Session) CaughtUp() bool {
	if s.observer.sawEnd() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
