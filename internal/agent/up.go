package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// up brings a session up for a person. It permits one submission, as long as the command
// that asked for it waits; without a waiter, as after a click, for a limited time.
func (a *Agent) up(ctx context.Context, req api.UpRequest, waiter string) (_ api.UpResponse, err error) {
	if !a.waiters.has(waiter) {
		return api.UpResponse{}, &api.Error{
			Code: api.CodeUsage, Message: "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out",
		}
	}
	s, err := a.requestedSession(req)
	if err != nil {
		return api.UpResponse{}, err
	}
	defer func() {
		if err != nil {
			a.dropUnused(s)
		}
	}()
	if (s.fromConfig() || s.of != "") && !s.inProgress() {
		if err := a.validConfig(); err != nil {
			return api.UpResponse{}, err
		}
	}
	s.reconfigure()
	if err := a.allowed(ctx, s.host()); err != nil {
		return api.UpResponse{}, err
	}
	if _, err := s.fixedSpecs(ctx); err != nil {
		return api.UpResponse{}, err // before a login that would be useless
	}
	if req.Job != "" {
		if err := s.chooseJob(req.Job); err != nil {
			return api.UpResponse{}, err
		}
	}
	with, err := a.requestedChoices(s, req)
	if err == nil {
		err = s.checkPresent(with)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	s.verify(ctx)
	now, at := s.start(byPerson, waiter, clientOf(ctx), with)
	if !a.waiters.has(waiter) { // it has left meanwhile
		s.revoke(waiter)
	}
	a.resume()
	return api.UpResponse{Session: now, At: at}, nil
}

// bringUp has all steps from a person's "up" to a page. It returns when the job ends,
// the session fails, or ctx is done.
func (s *session) bringUp(ctx context.Context, host *tunnel.Host) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	s.keepPorts()
	if !s.hasJob() { // forwards to fixed addresses work as soon as the host is connected
		s.change(func(f *facts) { f.answers = true })
	}
	if err := s.connect(ctx, host); err != nil {
		return err
	}
	if !s.hasJob() {
		<-ctx.Done() // its forwards follow the host's state
		return ctx.Err()
	}
	jobs, account := s.agent.jobWatcherOn(s.host())
	job, err := s.obtainJob(ctx, host, jobs, account)
	if err != nil {
		return err
	}
	for {
		last, err := s.follow(ctx, host, jobs, job)
		next, kept := s.successor(ctx, jobs, last)
		if !kept {
			return err
		}
		job = next
	}
}

// follow stays with one job, through all its runs, to its end.
func (s *session) follow(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	watch := jobs.Watch(job.Ref())
	defer watch.Close()
	if job.State == api.JobRunning && job.Node != "" {
		watch.SeenRunning()
	}
	s.setWatch(watch)
	var previous *jobRun
	for {
		run := newJobRun(s, host, jobs, previous)
		last, err := run.serve(ctx, watch, job)
		if !errors.Is(err, errMoved) {
			return last, err
		}
		job, previous = last, run
	}
}

// connect waits until the host is connected, also while a person has to log in first. If
// the host cannot be reached, it fails for a person who asked, and else keeps trying.
func (s *session) connect(ctx context.Context, host *tunnel.Host) error {
	for {
		changed := host.Changed()
		err := host.Await(ctx)
		if ctx.Err() != nil { // the state of the host means nothing once the agent stops
			return ctx.Err()
		}
		s.change(func(f *facts) { f.host = host.Status() })
		if err == nil {
			return nil
		}
		e, known := asAPI(err)
		if !known || s.requestedBy() == byPerson && e.Code != api.CodeNeedsPerson {
			return s.agent.withSiteHint(ctx, s.host(), err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// obtainJob finds or submits the session's job, and retries after a lost connection or
// when the scheduler does not respond: a submission is found again by its tag.
func (s *session) obtainJob(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, account string) (job api.Job, err error) {
	err = s.agent.retryUntilUp(ctx, host, func() error {
		job, err = s.findJob(ctx, jobs, account)
		return err
	}, func(why error) {
		switch {
		case errors.Is(why, api.ErrBusy):
			s.change(func(f *facts) {
				f.doing = "waiting until your own shell or copy ends: the host allows no more commands at a time"
			})
		case isNoAnswer(why):
			s.change(func(f *facts) { f.doing = "the scheduler does not respond; trying again" })
		}
	})
	return job, err
}

// findJob adopts the session's job if it exists on the account, and else submits it if a
// person permitted that.
func (s *session) findJob(ctx context.Context, jobs *jobwatch.Watcher, account string) (api.Job, error) {
	s.change(func(f *facts) { f.doing = "asking the scheduler about the job" })
	rec := s.agent.store.Session(s.name)
	unknown := rec.Job != nil && recentlySubmitted(*rec.Job) && !rec.Elsewhere(account)
	for _, q := range s.queries(rec, account) {
		job, found, err := jobs.Find(ctx, q)
		if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
			return api.Job{}, s.ambiguousError(several)
		}
		if err != nil {
			return api.Job{}, err
		}
		if found && !job.State.Ended() && job.State != api.JobCompleting && isRecorded(rec, q, job, account) {
			return job, s.adopt(job, tagOf(rec, q, job), account)
		}
		unknown = unknown && !found
	}
	if unknown { // the scheduler does not list it yet: the watch will see it, and nothing is submitted
		return *rec.Job, s.adopt(*rec.Job, rec.Tag, account)
	}
	if !s.permitted() {
		return api.Job{}, s.noJobError(rec, account)
	}
	if text := s.jobOnOtherAccount(rec, account); text != "" {
		s.agent.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: s.name, Text: fmt.Sprintf("job %s may still be running: %s", rec.Job.ID, text)}})
	}
	return s.submit(ctx, jobs, account, rec)
}

// tagOf is the tag of a job that was found by a query, "" if another than tunctl may have
// submitted it.
func tagOf(rec state.Session, q jobwatch.Query, job api.Job) string {
	switch {
	case rec.Next != nil && q.ID == rec.Next.Ref(), rec.NextTag != "" && q.Tag == rec.NextTag:
		return rec.NextTag
	case q.Name != "" && rec.Job != nil && rec.Job.Ref() != job.Ref(): // the recorded tag is of that job
		return ""
	}
	return rec.Tag
}

// recentlySubmitted reports whether a job was submitted so recently that the scheduler
// may not list it yet. One that runs nowhere was seen running by its log only.
func recentlySubmitted(job api.Job) bool {
	unlisted := job.State.Waiting() || job.State == api.JobRunning && job.Node == ""
	return unlisted && !job.Submitted.IsZero() && time.Since(job.Submitted) < jobwatch.Grace
}

// ambiguousError asks the person to choose among several jobs.
func (s *session) ambiguousError(several *jobwatch.AmbiguousError) error {
	host, newest := s.host(), several.Jobs[0].Ref()
	return &api.Error{
		Code: api.CodeFailed, Message: several.Error(), Err: several,
		Hint: fmt.Sprintf("`tunctl attach %s %s` opens the newest; or cancel the others with `tunctl cancel %s JOB`, then run this again", host, newest, host),
	}
}

// chooseJob makes one of several jobs of the session's name its job.
func (s *session) chooseJob(ref string) error {
	s.mu.Lock()
	candidates := s.facts.candidates
	s.mu.Unlock()
	i := slices.IndexFunc(candidates, func(j api.Job) bool { return j.Ref() == ref })
	if i < 0 {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("job %s is not one of the jobs that session %s can use", ref, s.name), Hint: fmt.Sprintf("`tunctl attach %s %s` opens any job", s.host(), ref)}
	}
	account := s.agent.pool.Host(s.host()).Account()
	return s.record(func(r *state.Session) { r.Job, r.Tag, r.Account = &candidates[i], "", account }, nil)
}

// queries are the ways to recognise the session's job, the surest first.
func (s *session) queries(rec state.Session, account string) []jobwatch.Query {
	var qs []jobwatch.Query
	if rec.Job != nil {
		qs = append(qs, jobwatch.Query{ID: rec.Job.Ref()})
	}
	elsewhere := rec.Elsewhere(account)
	if rec.Tag != "" && (rec.Job == nil || elsewhere) {
		qs = append(qs, jobwatch.Query{Tag: rec.Tag})
	}
	if rec.Next != nil {
		qs = append(qs, jobwatch.Query{ID: rec.Next.Ref()})
	}
	if rec.NextTag != "" && (rec.Next == nil || elsewhere) {
		qs = append(qs, jobwatch.Query{Tag: rec.NextTag})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := s.cfg.Job; name != "" && !s.attached {
		if s.of != "" {
			name = s.agent.acceptedJobName(s.cfg.Host, name)
		}
		qs = append(qs, jobwatch.Query{Name: name})
	}
	for i := range qs {
		qs[i].Args = s.cfg.Args
	}
	return qs
}

// startedByHandHint is why no job follows an attached one.
const startedByHandHint = "the job was not started by tunctl, so tunctl does not start it again"

// noJobError says that the session has no job, and that no person permits a submission.
func (s *session) noJobError(rec state.Session, account string) error {
	cfg := s.config()
	elsewhere := s.jobOnOtherAccount(rec, account)
	if rec.Job != nil && elsewhere == "" {
		s.recordRun(asGone(*rec.Job))
	}
	var e *api.Error
	switch {
	case elsewhere != "":
		e = &api.Error{Code: api.CodeJobEnded, Message: elsewhere, Hint: fmt.Sprintf("`tunctl up %s` starts a new one", s.name)}
	case s.attached:
		e = &api.Error{Code: api.CodeJobEnded, Message: fmt.Sprintf("the job of %s no longer exists", s.name), Hint: startedByHandHint}
	case rec.Job != nil:
		e = &api.Error{
			Code: api.CodeJobEnded, Message: fmt.Sprintf("job %s no longer exists", rec.Job.ID),
			Hint: fmt.Sprintf("`tunctl up %s` starts a new one", s.name),
		}
	case cfg.Submit == "":
		e = noSuchJobError(cfg, api.CodeJobEnded)
	default:
		e = &api.Error{
			Code: api.CodeJobEnded, Message: fmt.Sprintf("session %s has no job, and nobody waits for one to be submitted", s.name),
			Hint: fmt.Sprintf("`tunctl up %s` starts one", s.name),
		}
	}
	if cfg.Submit == "" && !s.attached { // it could not be submitted anyway
		e.Hint = noSuchJobError(cfg, e.Code).Hint
	}
	return e
}

// noSuchJobError is the error of a session that only looks for its job.
func noSuchJobError(cfg configs.Session, code api.Code) *api.Error {
	return &api.Error{
		Code: code, Message: fmt.Sprintf("no job called %q is queued or running on %s", cfg.Job, cfg.Host),
		Hint: fmt.Sprintf("start the job there, or set submit = \"~/script.sh\" in [session.%s]", cfg.Name),
	}
}

// submit submits the job once. The tag is saved before the submission: if the connection
// or the agent breaks in between, the next attempt with the same tag finds the job instead
// of submitting another.
func (s *session) submit(ctx context.Context, jobs *jobwatch.Watcher, account string, rec state.Session) (api.Job, error) {
	cfg := s.config()
	if cfg.Submit == "" {
		return api.Job{}, noSuchJobError(cfg, api.CodeFailed)
	}
	with, err := s.beginSubmission(rec, "submitting "+cfg.Submit)
	if err != nil {
		return api.Job{}, err
	}
	tag := rec.Tag
	if tag == "" || rec.Job != nil || rec.Doubted {
		tag = s.newTag()
	}
	if err := s.record(func(r *state.Session) { r.Tag, r.With, r.Job, r.Doubted, r.Assisted = tag, with, nil, false, false }, nil); err != nil {
		return api.Job{}, fmt.Errorf("nothing was submitted: %w", err)
	}
	sub, err := s.agent.submission(ctx, cfg, jobs, tag, with)
	if err == nil && !s.permitted() { // it may have ended meanwhile
		err = s.noJobError(rec, account)
	}
	if err == nil && !s.permittedByPerson() {
		err = s.chargeAssistant(ctx, jobs, sub)
	}
	if err != nil {
		if tag != rec.Tag { // nothing was submitted with it
			_ = s.record(func(r *state.Session) { r.Tag = "" }, nil)
			s.keepChoices(with)
		}
		return api.Job{}, err
	}
	sub.Awaited = true
	job, err := s.agent.submitFor(ctx, cfg, jobs, sub)
	if err != nil {
		if e, ok := asAPI(err); ok && e.Code == api.CodeSubmit {
			_ = s.record(func(r *state.Session) { r.Tag = "" }, nil) // refused for certain: the tag is not used again
			s.agent.dropAssistantJob(tag)
		}
		if isUncertain(err) {
			_ = s.record(func(r *state.Session) { r.Doubted = true }, nil)
		}
		return api.Job{}, err
	}
	return job, s.adopt(job, tag, account)
}

// isUncertain reports whether a person has to check that a job was submitted.
func isUncertain(err error) bool {
	_, doubt := errors.AsType[*jobwatch.DoubtError](err)
	return doubt
}

// newTag names a submission.
func (s *session) newTag() string { return s.name + "-" + strings.ToLower(rand.Text()[:10]) }

// finishJob forgets a job that is over, and says why it ended, with the end of its log
// if it never served.
func (s *session) finishJob(ctx context.Context, job api.Job) error {
	s.mu.Lock()
	served, cfg := s.facts.served, s.cfg
	s.mu.Unlock()
	excerpt, fix := "", ""
	if !served || !isOrdinaryEnd(job.State) {
		excerpt = s.logTail(ctx, job)
	}
	s.forgetJob()
	s.recordRun(job)
	if !served {
		fix = s.agent.fixFor(ctx, cfg, job, excerpt)
	}
	e := endedError(cfg, &job, served, excerpt, fix)
	if s.attached {
		e.Hint = startedByHandHint
	}
	return e
}

func asAPI(err error) (*api.Error, bool) { return errors.AsType[*api.Error](err) }
