package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// errMoved says that the job was requeued or moved to another node, and continues.
var errMoved = errors.New("the job moved")

// jobRun is one run of a job, from the queue to its end. A requeue begins another run,
// for which what the log said before no longer counts.
//
// The way from a log line to an open forward: followLog reads the log and gets a
// finding from each line; handleFinding makes it the prober's target; the prober
// returns a proven route; handleProbe passes it to openPage, which opens the forward.
type jobRun struct {
	session  *session
	host     *tunnel.Host
	jobs     *jobwatch.Watcher
	previous *jobRun // the run that ended when the job moved; nil for the first
	node     string  // of the job
	task     string  // of the job, in an array
	work     sync.WaitGroup

	follower    *joblog.Follower  // nil until the path of the log is known
	from        []joblog.Position // where the follower begins
	logPath     string            // that the follower reads first
	logExists   atomic.Bool
	logWritten  atomic.Bool // it has text
	logFindings chan detect.Finding
	finding     detect.Finding   // the latest
	others      []detect.Finding // the pages besides it, as the log last announced them
	changed     bool             // the log announced another endpoint before
	nudged      bool             // the scheduler was queried when the log appeared

	runningSince time.Time // when the job was first seen running
	silence      string    // what a person was told about the empty log

	searching     bool // for a server whose job has no log
	otherFindings chan detect.Finding

	nodes  *jobnode.Run
	prober *probe.Prober
	remind *reminder
	keep   *ledger.Keeper
}

func newJobRun(s *session, host *tunnel.Host, jobs *jobwatch.Watcher, previous *jobRun) *jobRun {
	nodes := newNodes(s, host, jobs)
	return &jobRun{
		session: s, host: host, jobs: jobs, previous: previous, nodes: nodes, prober: probe.New(probeOptions(s, nodes)),
		logFindings: make(chan detect.Finding, 1), otherFindings: make(chan detect.Finding),
		remind: newReminder(s), keep: s.jobs.NewKeeper(jobs),
	}
}

// serve waits for the job to start, follows its log, proves the endpoint that the log
// announces and keeps the forward on it, until the job ends or moves. It alone handles
// what the watch, the log and the prober report.
func (r *jobRun) serve(ctx context.Context, watch *jobwatch.Watch, job api.Job) (api.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.nodes.Close()
	defer r.work.Wait()
	defer cancel()
	if text := containerNotice(r.session.agent.settings, r.session.Config().WithAnswers(r.session.jobs.Current().With)); text != "" {
		r.nodes.AddNotice(text)
	}
	r.session.fullDisk.Store(false)
	r.session.nodes.Store(r.nodes)
	defer r.session.nodes.Store(nil)
	defer r.setOthers(nil)
	defer r.session.closePage(func(f *facts.Facts) {
		if ctx.Err() == nil && !f.JobOver() {
			f.Doing = facts.Doing{Text: fmt.Sprintf("job %s was requeued, or moved to another node", job.ID)}
		}
	})

	r.session.show("waiting for job %s", job.ID)
	r.work.Go(func() { r.prober.Serve(ctx) })
	r.work.Go(func() { r.remind.serve(ctx) })
	if r.session.Config().Keep || r.session.agent.store.Session(r.session.name).Next().Live() {
		r.work.Go(func() { r.keep.Serve(ctx) })
	}
	changed, up := r.host.Changed(), hosts.IsUp(r.host)
	var silent <-chan time.Time // fires when the job has run for a while without output
	var asked time.Time         // when the scheduler last reported the job
	r.resume(job)
	for {
		r.nodes.SetJob(job) // first: who sees the job running may use its nodes
		onRecord := r.session.jobs.SetJob(job)
		r.node, r.task = job.Node, job.Task
		latest.Offer(r.remind.updates, job)
		r.keep.Update(job)
		if job.State.Ended() {
			return job, r.finish(ctx, job, onRecord)
		}
		if r.session.Config().App == configs.ShellApp {
			r.proveShell(job)
		} else {
			r.followLog(ctx, watch, job)
		}
		if r.runningSince.IsZero() && r.follower != nil && job.State == api.JobRunning {
			r.runningSince, silent = time.Now(), time.After(r.session.agent.limits.Silent)
		}
		select {
		case next := <-watch.C():
			was := job
			asked = cmp.Or(next.Asked.Round(0).UTC(), asked)
			if job = r.handleReport(next, was); moved(was, job) {
				return job, errMoved
			}
		case job = <-r.session.jobUpdates:
		case f := <-r.logFindings:
			if job.State.Waiting() && !r.nudged {
				r.nudged = true
				r.jobs.QuerySoon()
			}
			r.reportSilence(job)
			r.handleFinding(f, job)
		case f := <-r.otherFindings:
			r.handleFinding(f, job)
		case <-silent:
			r.reportSilence(job)
		case p := <-r.prober.Results():
			r.handleProbe(p)
		case <-changed:
			was := up
			changed, up = r.host.Changed(), hosts.IsUp(r.host)
			if up && !was {
				r.jobs.QuerySoon()
				r.nudgeFollower()
			}
		case <-ctx.Done():
			if asked.After(job.Seen) { // an unchanged job is not saved after each answer
				job.Seen = asked
				r.session.jobs.SetJob(job)
			}
			return job, ctx.Err()
		}
	}
}

// handleReport takes in what the scheduler says of the job, and returns it as it is now.
func (r *jobRun) handleReport(report jobwatch.Report, was api.Job) api.Job {
	report.Job = r.session.jobs.AsRecorded(report.Job)
	r.session.Change(func(f *facts.Facts) { f.SettlePermit(report) })
	now := report.Job
	if reflect.DeepEqual(now, was) || moved(was, now) {
		return now
	}
	if was.State.Waiting() && now.State == api.JobRunning {
		r.nudgeFollower()
	}
	r.resume(now)
	r.handleFinding(r.finding, now) // the node may be new
	return now
}

// finish adds a job that is over to the history, unless its end was noticed elsewhere, and says why
// it ended, with the end of its log if it never served.
func (r *jobRun) finish(ctx context.Context, job api.Job, add bool) error {
	s := r.session
	served, cfg := s.Facts().Served, s.Config()
	source := s.agent.source(cfg)
	excerpt, fix := "", ""
	ordinary := job.State == api.JobFinished || job.State == api.JobTimeout || job.State == api.JobCancelled
	if !served || !ordinary {
		var err error
		if excerpt, err = s.log().Tail(ctx, job); err != nil {
			s.agent.log.Debug("cannot read the end of the log", "session", s.name, "err", err)
		}
	}
	job = facts.WithLog(job, excerpt)
	if add {
		s.jobs.RecordRun(job)
	}
	if !served {
		fix = source.Fix(ctx, s.agent.hosts.Watcher(cfg.Host), facts.EndText(&job, time.Now()), excerpt)
	}
	e := facts.EndedError(cfg, &job, served, excerpt, fix, time.Now())
	with := s.saved().Submissions.Of(job).With
	switch more := source.MoreMemory(job, with); {
	case s.byJob():
		e.Hint = facts.StartedByHand
	case submit.DiskIsFull(excerpt):
		e.Hint = fmt.Sprintf("your quota on %s is used up, or the disk is full: free disk space; `tunctl quota %s` shows your usage, `tunctl logs %s` the log", cfg.Host, cfg.Host, cfg.Name)
	case more != nil:
		e.Hint = fmt.Sprintf("`tunctl up %s %s` starts one with more memory; `tunctl logs %s` shows its log", cfg.Name, more.Flags(), cfg.Name)
	}
	return e
}

// moved reports whether a job has begun another run. A scheduler that does not respond
// has moved nothing.
func moved(was, now api.Job) bool {
	switch {
	case now.State == api.JobUnknown:
		return false
	case now.Restarts != was.Restarts:
		return true
	case was.Node != "" && now.Node != "" && now.Node != was.Node:
		return true
	case was.Task != "" && now.Task != "" && now.Task != was.Task: // the next one of an array
		return true
	}
	return now.State.Waiting() && (was.State == api.JobRunning || was.State == api.JobCompleting)
}

// followLog begins to read the job's logs once their paths are known: a log that
// appears while the job is queued is the first sign of its start. If a running job has
// none, as under srun, the server is searched for without it.
func (r *jobRun) followLog(ctx context.Context, watch *jobwatch.Watch, job api.Job) {
	if job.Hint == api.HintSpooled { // other files of the job may not have the address
		r.searchWithoutLog(ctx, job)
	}
	if r.follower != nil {
		r.follower.Expect(job.ExpectedStart)
		return
	}
	paths := r.session.log().Paths(job)
	if len(paths) == 0 {
		r.searchWithoutLog(ctx, job)
		return
	}
	r.logPath = paths[0]
	r.showReading(job)
	detector := r.session.agent.settings.Detector(r.session.Config().App)
	o := joblog.FollowOptions{
		Paths:     paths,
		From:      r.from,
		NewerThan: job.Submitted,
		JobID:     job.ID,
		Enough:    func() bool { return detector.Finding().Found },
		Limits:    r.session.agent.limits.Jobs,
		Log:       r.session.agent.log.With("session", r.session.name),
	}
	if here, ok := r.session.log().Reader().(remote.Local); ok {
		r.follower = joblog.NewFollower(here, o)
	} else {
		r.follower = r.jobs.NewFollower(o) // all files on the host share their commands
	}
	r.follower.Expect(job.ExpectedStart)
	if watch.JustSubmitted() {
		r.follower.ReadOften() // the job may start at once
	}
	watch.LogFollowed()
	feed := joblog.Feed(detector)
	r.work.Go(func() {
		r.session.agent.report("log follower", r.follower.Serve(ctx, func(c joblog.Chunk) {
			feed(c)
			r.logExists.Store(true)
			r.logWritten.CompareAndSwap(false, len(c.Data) > 0)
			watch.LogFound(c.Path)
			if submit.DiskIsFull(string(c.Data)) && r.session.fullDisk.CompareAndSwap(false, true) {
				r.session.Change(func(*facts.Facts) {}) // its warnings
			}
			latest.Offer(r.logFindings, detector.Finding())
		}))
	})
}

// handleFinding acts on the latest finding.
func (r *jobRun) handleFinding(f detect.Finding, job api.Job) {
	r.setFinding(f)
	r.announceOthers(job)
	switch {
	case f.Found && f.Ended:
		r.session.closePage(func(x *facts.Facts) {
			x.Doing = facts.Doing{Text: fmt.Sprintf("the server of job %s has stopped; waiting for a new one, or for the end of the job", job.ID)}
		})
		r.prober.SetTarget(nil)
	case f.Found && f.Link != "":
		r.session.Change(func(x *facts.Facts) { x.Link, x.Answers, x.Doing = f.Link, true, facts.Doing{} })
	case f.Found:
		r.prober.SetTarget(r.target(f, job))
	}
}

// target is what to prove for a finding.
func (r *jobRun) target(f detect.Finding, job api.Job) *probe.Target {
	return &probe.Target{Finding: f, Job: job.ID, Node: job.Node, Files: r.jobs.RuntimeFiles(hosts.Runner{Host: r.host}, job)}
}

// proveShell has the prober run a command inside a job that serves no page, once it is
// known where the job runs.
func (r *jobRun) proveShell(job api.Job) {
	if job.State != api.JobRunning || job.Node == "" || r.prober.Target() != nil {
		return
	}
	r.session.show("running a command inside job %s on %s", job.ID, job.Node)
	r.prober.SetTarget(&probe.Target{Shell: true, Job: job.ID, Node: job.Node})
}

// announceOthers makes the other pages of the log those of the session.
func (r *jobRun) announceOthers(job api.Job) {
	if r.others == nil {
		return // no log was read
	}
	pages := make([]*probe.Page, len(r.others))
	for i, f := range r.others {
		pages[i] = probe.NewPage(f.Name, probeOptions(r.session, r.nodes), r.target(f, job))
	}
	r.setOthers(pages)
}

func (r *jobRun) setOthers(pages []*probe.Page) {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages.setOthers(pages) {
		s.enterLocked()
	}
}

// setFinding keeps the latest finding.
func (r *jobRun) setFinding(f detect.Finding) {
	r.changed = r.changed || r.finding.Found && f.Endpoint != r.finding.Endpoint
	r.finding = f
	if f.Others != nil { // a runtime file knows of none
		r.others = f.Others
	}
}

// handleProbe acts on what the prober returned.
func (r *jobRun) handleProbe(p probe.Result) {
	switch {
	case p.Disconnected:
		// The host's state has the reason, which may arrive later otherwise. It is read here,
		// since the host may be connected again by now.
		r.session.Change(func(f *facts.Facts) { f.Host, f.Answers = r.host.Status(), false })
	case p.Target != r.prober.Target(): // the log has announced another since
	case p.Route != nil:
		if p.Route.Inside == nil {
			r.nodes.SetServer(p.Target.Finding.Host, p.Route.Endpoint.Port)
		}
		r.session.openPage(p.Route)
		if r.follower != nil {
			r.follower.Settled() // the log is read less often
		}
	default:
		r.session.Change(func(f *facts.Facts) {
			f.Answers, f.Doing = false, facts.Doing{Text: p.Doing}
			if p.Target.Shell {
				f.Doing.Hint = fmt.Sprintf("this needs ssh to the nodes, or a command of the scheduler that enters a job, if the site allows one; the job is charged meanwhile: `tunctl down %s --cancel` ends it", f.Name)
			}
		})
		if p.Suspected { // the job may have ended
			r.jobs.QuerySoon()
			r.nudgeFollower()
		}
	}
}

// openPage makes a proven route the way to the session's page, if it has one, and opens its
// forward there once the session is ready.
func (s *session) openPage(proven *probe.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages.route, s.facts.Answers, s.facts.Doing = proven, true, facts.Doing{}
	if proven.Inside == nil {
		s.facts.Endpoint = &proven.Endpoint
	}
	_ = s.recordLocked(func(r *state.Session) {
		r.Submissions = r.Submissions.Change(r.Current(), func(x *state.Submission) { x.Served = true })
		if !proven.Endpoint.TakesOneClient() { // nobody has tried the way to it
			r.Reach = proven.Endpoint.Reach
		}
	})
}

// closePage takes the page away: nothing is known to serve it.
func (s *session) closePage(show func(*facts.Facts)) {
	s.Change(func(f *facts.Facts) {
		s.pages.route = nil
		f.Endpoint, f.Link, f.Answers = nil, "", false
		show(f)
	})
}

// resume continues where the previous run stopped. Its log announces the new endpoint
// before the scheduler reports the move: an announcement belongs to this run if it
// names the new node, or if it was the last and names none, as an address does. It is
// probed before it is believed, once the scheduler has reported the node.
func (r *jobRun) resume(job api.Job) {
	was := r.previous
	if was == nil || was.task != job.Task { // the log of another task says nothing about this one
		return
	}
	if r.follower == nil {
		r.from = was.from
		if was.follower != nil {
			r.from = was.follower.Position()
		}
	}
	select {
	case f := <-was.logFindings: // read just before the job moved
		was.setFinding(f)
	default:
	}
	switch f := was.finding; {
	case r.finding.Found: // in its own log
	case job.Node == "":
		return // called again when the job starts
	case f.Found && (api.SameNode(f.Host, job.Node) || was.changed && !api.SameNode(f.Host, was.node)):
		f.Others = slices.DeleteFunc(slices.Clone(f.Others), func(o detect.Finding) bool { return api.SameNode(o.Host, was.node) })
		r.handleFinding(f, job)
	}
	r.previous = nil
}

// nudgeFollower has the log read often for a while: something has just changed.
func (r *jobRun) nudgeFollower() {
	if r.follower != nil {
		r.follower.ReadOften()
	}
}

// showReading says that the log is searched for the server's address.
func (r *jobRun) showReading(job api.Job) {
	r.session.show("looking for the server address in the log of job %s: %s", job.ID, r.logPath)
}

// reportSilence says that the job has written nothing for a while, and takes it back
// when it writes.
func (r *jobRun) reportSilence(job api.Job) {
	if r.runningSince.IsZero() || time.Since(r.runningSince) < r.session.agent.limits.Silent || r.finding.Found {
		return
	}
	was := r.silence
	switch {
	case r.logWritten.Load():
		r.silence = ""
	case r.logExists.Load():
		r.silence = "its log is still empty: " + r.logPath
	default:
		r.silence = "its log does not exist yet: " + r.logPath
	}
	switch r.silence {
	case was:
	case "":
		r.showReading(job)
	default:
		r.session.Change(func(f *facts.Facts) {
			f.Doing.Text = fmt.Sprintf("job %s has been running for %s, and %s", job.ID, api.DurationText(time.Since(r.runningSince)), r.silence)
			if job.Hint != api.HintSpooled { // which says why
				f.Doing.Hint = fmt.Sprintf("the job may still be setting up, or write to another file: set log = \"…\" in [session.%s]", f.Name)
			}
		})
	}
}

// searchWithoutLog looks for the server of a running job that has no readable log: in
// the runtime files that Jupyter servers write, and in the output that the scheduler
// still has.
func (r *jobRun) searchWithoutLog(ctx context.Context, job api.Job) {
	unplaced := job.Node == "" && job.Start.IsZero() // seen running by its log only
	if r.searching || job.State != api.JobRunning || unplaced {
		return
	}
	r.searching = true
	if job.Hint == api.HintSpooled {
		r.session.show("PBS keeps the output of job %s on the node until it ends; looking for runtime files of Jupyter", job.ID)
	} else {
		r.session.show("no readable log for job %s; looking for runtime files of Jupyter and for its output", job.ID)
	}
	r.work.Go(func() { r.searchRuntimeFiles(ctx, job) })
	r.work.Go(func() { r.searchStepOutput(ctx, job) })
}

// searchRuntimeFiles reads Jupyter's runtime files while no server answers.
func (r *jobRun) searchRuntimeFiles(ctx context.Context, job api.Job) {
	limits := r.session.agent.limits.Jobs
	files := r.jobs.RuntimeFiles(hosts.Runner{Host: r.host}, job)
	began := time.Now()
	for {
		if !r.session.Facts().Answers {
			if f, ok := files.Find(ctx); ok {
				r.offerOther(ctx, f)
			} else if err := files.Err(); err != nil {
				r.session.show("%v", err)
			}
		}
		if ctxtime.Sleep(ctx, limits.LogInterval(time.Since(began))) != nil {
			return
		}
	}
}

// searchStepOutput reads the output of the job's steps while no server answers. All
// jobs of a host take turns.
func (r *jobRun) searchStepOutput(ctx context.Context, job api.Job) {
	for ctxtime.Sleep(ctx, r.session.agent.limits.Jobs.LogStarting) == nil {
		if r.session.Facts().Answers {
			continue
		}
		out, err := r.jobs.StepOutput(ctx, job.Ref())
		if errors.Is(err, jobwatch.ErrNoSteps) {
			return
		}
		if err != nil {
			r.session.agent.log.Debug("cannot read the output of the job", "session", r.session.name, "err", err)
			continue
		}
		detector := r.session.agent.settings.Detector(r.session.Config().App)
		_, _ = detector.Write(out)
		detector.Flush()
		if f := detector.Finding(); f.Found && !r.session.Facts().Answers {
			r.offerOther(ctx, f)
		}
	}
}

// offerOther has a finding that is not of the log handled.
func (r *jobRun) offerOther(ctx context.Context, f detect.Finding) {
	select {
	case r.otherFindings <- f:
	case <-ctx.Done():
	}
}

// signal sends to a channel unless a signal is waiting there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
