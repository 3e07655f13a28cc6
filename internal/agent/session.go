package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// asker is who asked for a session to be up.
type asker int

const (
	byPerson asker = iota // is told at once what fails; outranks the other
	byItself              // the agent, for what it remembers: goes on trying
)

// session is one thing a person brings up, from up to down.
type session struct {
	agent  *Agent
	name   string
	acting sync.Mutex // one start or stop at a time
	// attached says that its job was started by hand: it is recognised by its id
	// alone, and none is ever submitted in its place.
	attached bool
	adhoc    bool // its forwards are in no config: they are gone with its down

	mu         sync.Mutex
	cfg        configs.Session
	facts      facts
	current    api.Session // as last entered
	forward    *forwards   // from the first start to down
	route      *route      // the proven way to the page; nil: none
	run        *run        // the try under way
	watch      *jobwatch.Watch
	dropped    string       // the job that a person cancelled through us
	jobUpdates chan api.Job // what another than the watch has learnt about the job
}

// run is one try to bring a session up and keep it so.
type run struct {
	host    *tunnel.Host  // that the try goes to
	who     asker         // guarded by session.mu: a person may ask for what runs by itself
	client  string        // which a person last asked through; guarded too
	permit  permit        // to submit a job; guarded too, and used up by a job that is there
	granted chan struct{} // told of a new permit
	cancel  context.CancelFunc
	done    chan struct{}
}

func newSession(a *Agent, cfg configs.Session) *session {
	s := &session{agent: a, name: cfg.Name, cfg: cfg, jobUpdates: make(chan api.Job, 1)}
	s.facts = a.remembered(cfg.Name, time.Now())
	s.current = a.downSession(cfg)
	return s
}

// downSession is a session of the config that is not up. A job that outlived its down is
// still its own, whichever agent remembers it.
func (a *Agent) downSession(cfg configs.Session) api.Session {
	now := time.Now()
	f := a.remembered(cfg.Name, now)
	v := f.derive(now)
	return api.Session{
		Name: cfg.Name, Host: cfg.Host, State: v.state, Cause: api.Redact(v.cause), Hint: v.hint,
		Job: f.job, Next: f.next, Forwards: []api.Forward{},
	}
}

// remembered are the facts of a session that is not up: its jobs, unless they are over.
func (a *Agent) remembered(name string, now time.Time) facts {
	rec := a.store.Session(name)
	f := facts{name: name, job: rec.Job, next: rec.Next}
	if f.job != nil && (f.job.State.Ended() || over(*f.job, now)) {
		f.job = nil
	}
	return f
}

func (s *session) host() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Host
}

// app is what to look for in the log; empty for any.
func (s *session) app() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.App
}

// status is the session with its counters as they are now.
func (s *session) status() api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.current
	st.Forwards = s.forward.status()
	if st.State == api.SessionDown && st.Job != nil && !st.Job.State.Ended() && over(*st.Job, time.Now()) {
		st.Job, st.Cause, st.Hint = nil, "", "" // its time limit has passed since the down
	}
	return st
}

// start brings the session up unless a try is under way, and returns its state
// right after. The client, if any, gets the questions of a login.
func (s *session) start(who asker, client string) api.Session {
	now, _ := s.startFor(who, "", client)
	return now
}

// startFor is start on behalf of a command that waits. Events from before at tell of
// the time before the start.
func (s *session) startFor(who asker, waiter, client string) (now api.Session, at time.Time) {
	s.acting.Lock()
	defer s.acting.Unlock()
	s.agent.enlist(s)
	_ = s.record(func(r *state.Session) { r.Wanted = true }, nil)
	host := s.agent.pool.Host(s.host())
	want(host, who, client)
	s.mu.Lock()
	defer s.mu.Unlock()
	at = time.Now()
	if s.run != nil {
		s.run.who, s.run.client = min(s.run.who, who), client
		// Nobody can say how a job is that is out of reach, or whose server is gone: should
		// it be over, as the one may be whose end is just seen to, the person wants another.
		if who == byPerson && (s.facts.job == nil || s.facts.jobOver() || s.facts.host.State != api.HostUp || s.facts.lostServer()) {
			s.grantLocked(s.run, waiter)
		}
		// The answer tells of now: that the host is tried again is news on its way.
		s.facts.host = host.Status()
		s.enterLocked()
		return s.current, at
	}
	r := s.newRunLocked(host, who, client)
	if who == byPerson {
		s.grantLocked(r, waiter)
	}
	s.launchLocked(r)
	return s.current, at
}

// want has a host connected for who asks.
func want(host *tunnel.Host, who asker, client string) {
	if who == byPerson {
		host.UpFor(client)
	} else {
		host.Want()
	}
}

// underWay reports whether a try to bring the session up and keep it so is under way.
func (s *session) underWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil
}

// reconfigure takes what the config says now, unless a try is under way.
func (s *session) reconfigure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		s.reconfigureLocked()
	}
}

// reconfigureLocked takes what the config says now, and reports whether that is
// another host.
func (s *session) reconfigureLocked() bool {
	cfg, ok := s.agent.configured(s.name)
	if !ok || s.attached || s.adhoc {
		return false
	}
	was := s.cfg.Host
	s.cfg = cfg
	return cfg.Host != was
}

// newRunLocked prepares a try, by what the config says now. Without a person it can
// only find a job again.
func (s *session) newRunLocked(host *tunnel.Host, who asker, client string) *run {
	if s.reconfigureLocked() {
		host = s.agent.pool.Host(s.cfg.Host)
		want(host, who, client)
	}
	needsJob := s.hasJobLocked()
	s.facts = facts{name: s.name, wanted: true, needsJob: needsJob, host: host.Status(), remind: s.agent.limits.Remind}
	s.facts.before = s.agent.remembered(s.name, time.Now()).job
	s.facts.lapsed = who == byItself && s.cfg.Submit != "" && s.agent.store.Session(s.name).Job == nil
	return &run{who: who, client: client, host: host, granted: make(chan struct{}, 1), done: make(chan struct{})}
}

// launchLocked begins a try.
func (s *session) launchLocked(r *run) {
	ctx, cancel := context.WithCancel(s.agent.ctx)
	r.cancel, s.run = cancel, r
	s.enterLocked()
	s.agent.work.Go(func() { s.expire(ctx, r) })
	s.agent.work.Go(func() {
		defer s.dropFailed(r) // after done, which a stop waits for
		defer close(r.done)
		defer cancel()
		s.finish(r, s.stayUp(ctx, r.host))
	})
}

// asked is who asked for the try under way.
func (s *session) asked() asker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return byItself
	}
	return s.run.who
}

func (s *session) hasJobLocked() bool { return s.attached || s.cfg.Job != "" || s.cfg.Submit != "" }

func (s *session) hasJob() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasJobLocked()
}

// onlyForwards is the answer to who asks for the job or the page of a session that
// can have neither.
func (s *session) onlyForwards() *api.Error {
	return &api.Error{
		Code: api.CodeUsage, Message: fmt.Sprintf("session %s has only forwards: no job and no page", s.name),
		Hint: fmt.Sprintf("`tunctl status %s` shows where it listens", s.name),
	}
}

// finish records why a try is over. The listener stays, and says so.
func (s *session) finish(r *run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != r {
		return // taken down meanwhile
	}
	s.run = nil
	if s.agent.ctx.Err() != nil {
		return // the agent ends: the session is wanted still
	}
	failure := asError(err)
	if (failure.Code == api.CodeJobEnded || s.facts.jobOver()) && r.permit.live(time.Now()) {
		again := s.newRunLocked(r.host, byPerson, r.client) // a person asked just as it gave up, or for a job that was over
		again.permit = r.permit
		s.launchLocked(again)
		return
	}
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		s.facts.candidates = several.Jobs
	}
	s.facts.failure = failure
	s.facts.answers = false
	s.enterLocked()
}

// stop takes the session down and, with cancel, ends its job too.
func (s *session) stop(ctx context.Context, cancel bool) (api.Session, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	rec := s.agent.store.Session(s.name)
	job, next := rec.Job, rec.Next
	cancel = cancel && job != nil && !job.State.Ended()
	var jobs *jobwatch.Watcher
	var err error
	if cancel {
		if jobs, err = s.whereToCancel(rec); err != nil {
			return s.status(), err
		}
	}
	s.halt()
	_ = s.record(func(r *state.Session) { r.Wanted = false }, nil)
	if cancel {
		if err = jobs.Cancel(ctx, job.Ref()); err == nil {
			cancelled := *job
			cancelled.State, job = api.JobCancelled, &cancelled
			s.recordRun(cancelled)
			s.forgetJob()
			err, next = s.cancelNext(ctx, jobs), nil
		}
	}
	s.change(func(f *facts) { *f = facts{name: s.name, job: job, next: next, host: f.host} })
	return s.status(), err
}

// halt ends the try under way and gives the ports back.
func (s *session) halt() {
	s.mu.Lock()
	s.facts.wanted = false
	s.enterLocked()
	r, fwd := s.run, s.forward
	s.run, s.forward = nil, nil
	s.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done // every wait of the run has its ctx
	}
	fwd.close()
}

// change takes in a new fact and enters the state that follows from all of them.
func (s *session) change(apply func(*facts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	apply(&s.facts)
	s.enterLocked()
}

// enterLocked is the one place that enters a state: it stamps when and why, tells
// everyone, and turns the listener towards the endpoint or away from it.
func (s *session) enterLocked() {
	now := time.Now()
	s.facts.listeners = s.forward.onHost()
	v := s.facts.derive(now)
	if v.state == api.SessionReady {
		s.facts.served = true
		s.usePermitLocked()
	}
	next := api.Session{
		Name: s.name, Host: s.cfg.Host,
		State: v.state, Cause: s.redactLocked(v.cause), Hint: s.redactLocked(v.hint), Code: v.code,
		Asked:     v.asked || v.state == api.SessionEnded && s.facts.job != nil && s.facts.job.ID == s.dropped,
		MaySubmit: s.run != nil && s.cfg.Submit != "" && s.run.permit.live(now),
		Since:     s.current.Since, Job: s.facts.job, Next: s.facts.next, Candidates: s.facts.candidates, Endpoint: s.facts.endpoint,
	}
	if next.Job == nil && !next.MaySubmit && s.facts.failure == nil && s.facts.host.State != api.HostUp {
		next.Job = s.facts.before // it runs, and is charged, for all that is known
	}
	if v.state != s.current.State {
		next.Since = now
	}
	s.forward.apply(v, next.Since, s.facts, s.agent.pool.Host(s.cfg.Host), s.route)
	next.Local, next.URL = s.forward.address(s.facts.endpoint)
	if s.facts.link != "" {
		next.Local, next.URL = "", s.facts.link
	}
	was := s.current
	was.Forwards = nil // their counters change all the time
	if reflect.DeepEqual(next, was) {
		return
	}
	next.Forwards = s.forward.status()
	if next.State != s.current.State {
		s.agent.log.Info("session", "name", s.name, "state", next.State, "cause", next.Cause)
	}
	s.current = next
	told := next
	s.agent.hub.publish(api.Event{Type: api.EventSession, Time: now, Session: &told})
}

func (s *session) redactLocked(text string) string {
	if s.facts.endpoint != nil {
		return api.Redact(text, s.facts.endpoint.Token)
	}
	return api.Redact(text)
}

// pageURL is the whole address of the session's page, token included.
func (s *session) pageURL() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasJobLocked() {
		return "", s.onlyForwards()
	}
	if s.facts.link != "" {
		return s.facts.link, nil
	}
	ep := s.facts.endpoint
	if ep == nil || s.forward == nil {
		return "", &api.Error{
			Code:    api.CodeNotReady,
			Message: fmt.Sprintf("session %q has no page to open: it is %s", s.name, s.current.State),
			Hint:    fmt.Sprintf("`tunctl up %s` starts it and opens the page", s.name),
		}
	}
	u := ep.PageURL(s.forward.page.URLHost())
	if !ep.Token.IsZero() {
		q := u.Query()
		q.Set(ep.TokenParam(), ep.Token.Reveal())
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}

// asError puts an error into words for a person.
func asError(err error) *api.Error {
	if e, ok := asAPI(err); ok {
		return e
	}
	if err == nil {
		return &api.Error{Code: api.CodeJobEnded, Message: "the session ended"}
	}
	return &api.Error{Code: api.CodeFailed, Message: err.Error(), Err: err}
}
