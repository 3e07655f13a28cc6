// Package run has one run of a session's job, from the queue to its end: from a line of its log to a
// finding and a proven route; its nodes, and the reminders of its time limit.
package run

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
	"tunctl/internal/agent/logs"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/internal/lists"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// ErrMoved says that the job was requeued or moved to another node, and continues.
var ErrMoved = errors.New("the job moved")

// Owner is the session whose job it is.
type Owner interface {
	Config() configs.Session
	Facts() facts.Facts
	// Change changes facts.
	Change(func(*facts.Facts))
	// Notify tells the user something once.
	Notify(api.NoticeKind, string)
	// SetNodes makes these the nodes of the session's job; nil are none.
	SetNodes(*jobnode.Run)
	// OpenPage makes a proven route the way to the session's page, ClosePage takes the page away.
	OpenPage(*probe.Route)
	ClosePage(func(*facts.Facts))
	// SetOthers makes these the other pages that the job announces.
	SetOthers([]*probe.Page)
	// HeldChanged says that what runs inside the job waits for a connection, has continued or was lost.
	HeldChanged()
}

// Limits bound what a run does.
type Limits struct {
	Probe probe.Limits
	// Silent is how long a running job may write nothing before the session says so.
	Silent time.Duration
	// Remind are the times before a job's end at which the user is reminded, the longest first.
	Remind []time.Duration
}

// Run is one run of a job, from the queue to its end. A requeue begins another run,
// for which what the log said before no longer counts.
//
// The way from a log line to an open forward: followLog reads the log and gets a
// finding from each line; handleFinding makes it the prober's target; the prober
// returns a proven route; handleProbe passes it to openPage, which opens the forward.
type Run struct {
	*ledger.Ledger
	owner    Owner
	limits   Limits
	updates  <-chan api.Job // the job as something other than the watch has seen it
	host     *tunnel.Host
	jobs     *jobwatch.Watcher
	previous *Run   // the run that ended when the job moved; nil for the first
	node     string // of the job
	task     string // of the job, in an array
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
	silence      string    // what the user was told about the empty log

	searching     bool // for a server whose job has no log
	otherFindings chan detect.Finding

	nodes  *jobnode.Run
	prober *probe.Prober
	keep   *ledger.Keeper

	limited  chan api.Job // the job, for its reminders
	reminded struct {     // of serveReminders
		end  time.Time     // the limit of the last reminder
		mark time.Duration // and how long before it
	}
}

// New returns a run of the session's job. The previous one ended when the job moved; nil for the first.
func New(l *ledger.Ledger, owner Owner, host *tunnel.Host, jobs *jobwatch.Watcher, updates <-chan api.Job, limits Limits, previous *Run) *Run {
	r := &Run{
		Ledger: l, owner: owner, host: host, jobs: jobs, updates: updates, limits: limits, previous: previous,
		logFindings: make(chan detect.Finding, 1), otherFindings: make(chan detect.Finding),
		limited: make(chan api.Job, 1), keep: l.NewKeeper(jobs),
	}
	r.nodes = r.newNodes()
	r.prober = probe.New(r.probeOptions())
	return r
}

// Serve waits for the job to start, follows its log, proves the endpoint that the log
// announces and keeps the forward on it, until the job ends or moves. It alone handles
// what the watch, the log and the prober report.
func (r *Run) Serve(ctx context.Context, watch *jobwatch.Watch, job api.Job) (api.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.nodes.Close()
	defer r.work.Wait()
	defer cancel()
	if text := containerNotice(r.Settings, r.owner.Config().WithAnswers(r.Current().With)); text != "" {
		r.nodes.AddNotice(text)
	}
	r.owner.SetNodes(r.nodes)
	defer r.owner.SetNodes(nil)
	defer r.owner.SetOthers(nil)
	defer r.owner.ClosePage(func(f *facts.Facts) {
		if ctx.Err() == nil && !f.JobOver() {
			f.Doing = facts.Doing{Text: fmt.Sprintf("job %s was requeued, or moved to another node", job.ID)}
		}
	})

	r.owner.Change(func(f *facts.Facts) { f.FullDisk = false })
	r.ShowDoing("waiting for job %s", job.ID)
	r.work.Go(func() { r.prober.Serve(ctx) })
	r.work.Go(func() { r.serveReminders(ctx) })
	if r.owner.Config().Keep || r.Store.Session(r.Name).Next().Live() {
		r.work.Go(func() { r.keep.Serve(ctx) })
	}
	changed, up := r.host.Changed(), hosts.IsUp(r.host)
	var silent <-chan time.Time // fires when the job has run for a while without output
	var asked time.Time         // when the scheduler last reported the job
	r.resume(job)
	for {
		r.nodes.SetJob(job) // first: who sees the job running may use its nodes
		onRecord := r.SetJob(job)
		r.node, r.task = job.Node, job.Task
		latest.Offer(r.limited, job)
		r.keep.Update(job)
		if job.State.Ended() {
			return job, r.finish(ctx, job, onRecord)
		}
		if r.owner.Config().App == configs.ShellApp {
			r.proveShell(job)
		} else {
			r.followLog(ctx, watch, job)
		}
		if r.runningSince.IsZero() && r.follower != nil && job.State == api.JobRunning {
			r.runningSince, silent = time.Now(), time.After(r.limits.Silent)
		}
		select {
		case next := <-watch.C():
			was := job
			asked = cmp.Or(next.Asked.Round(0).UTC(), asked)
			if job = r.handleReport(next, was); moved(was, job) {
				return job, ErrMoved
			}
		case job = <-r.updates:
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
				r.SetJob(job)
			}
			return job, ctx.Err()
		}
	}
}

// handleReport takes in what the scheduler says of the job, and returns it as it is now.
func (r *Run) handleReport(report jobwatch.Report, was api.Job) api.Job {
	report.Job = r.AsRecorded(report.Job)
	r.owner.Change(func(f *facts.Facts) { f.SettlePermit(report) })
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
func (r *Run) finish(ctx context.Context, job api.Job, add bool) error {
	served, cfg := r.owner.Facts().Served, r.owner.Config()
	source := r.Source(cfg)
	excerpt, fix := "", ""
	ordinary := job.State == api.JobFinished || job.State == api.JobTimeout || job.State == api.JobCancelled
	if !served || !ordinary || job.State == api.JobFinished { // which may say that nobody used it
		var err error
		if excerpt, err = r.log().Tail(ctx, job); err != nil {
			r.Log.Debug("cannot read the end of the log", "session", r.Name, "err", err)
		}
	}
	job = facts.WithLog(job, excerpt, cfg.EndIdle > 0)
	if served && ordinary {
		excerpt = ""
	}
	if job.Unused() {
		r.CancelNext(facts.EndText(&job, time.Now()))
	}
	if add {
		r.RecordRun(job)
	}
	if !served {
		fix = source.Fix(ctx, r.Hosts.Watcher(cfg.Host), facts.EndText(&job, time.Now()), excerpt)
	}
	e := facts.EndedError(cfg, &job, served, excerpt, fix, time.Now())
	with := r.List().Of(job).With
	switch more := source.MoreMemory(job, with); {
	case r.OneJob:
		e.Hint = facts.StartedByHand
	case submit.DiskIsFull(excerpt):
		e.Hint = fmt.Sprintf("your quota on %s is used up, or the disk is full: free disk space; `tunctl quota %s` shows your usage, `tunctl logs %s` the log", cfg.Host, cfg.Host, cfg.Name)
	case more != nil:
		e.Hint = fmt.Sprintf("`tunctl up %s %s` starts one with more memory; `tunctl logs %s` shows its log", cfg.Name, more.Flags(), cfg.Name)
	}
	return e
}

// serveReminders reminds the user of the job's time limit before it is reached, until ctx ends.
func (r *Run) serveReminders(ctx context.Context) {
	var job api.Job
	for {
		next := ctxtime.WallTimer(r.remind(job, time.Now()))
		select {
		case job = <-r.limited:
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// remind sends a reminder that is due, once, and returns when the next is.
func (r *Run) remind(job api.Job, now time.Time) time.Time {
	mark, next := facts.PassedMark(r.limits.Remind, job, now)
	r.owner.Change(func(*facts.Facts) {}) // the cause depends on the time
	// Schedulers round: an end that moved by seconds is the same.
	reminded := r.reminded.mark > 0 && job.End.Sub(r.reminded.end).Abs() < time.Minute && r.reminded.mark <= mark
	if mark > 0 && !reminded {
		r.reminded.end, r.reminded.mark = job.End, mark
		r.owner.Notify(api.NoticeTimeLimit, fmt.Sprintf("%s ends at %s: save your work, the time limit of its job is near", r.Name, api.ClockText(job.End, now)))
	}
	return next
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
func (r *Run) followLog(ctx context.Context, watch *jobwatch.Watch, job api.Job) {
	if job.Hint == api.HintSpooled { // other files of the job may not have the address
		r.searchWithoutLog(ctx, job)
	}
	if r.follower != nil {
		r.follower.Expect(job.ExpectedStart)
		return
	}
	paths := r.log().Paths(job)
	if len(paths) == 0 {
		r.searchWithoutLog(ctx, job)
		return
	}
	r.logPath = paths[0]
	r.showReading(job)
	detector := r.Settings.Detector(r.owner.Config().App)
	o := joblog.FollowOptions{
		Paths:     paths,
		From:      r.from,
		NewerThan: job.Submitted,
		JobID:     job.ID,
		Enough:    func() bool { return detector.Finding().Found },
		Limits:    r.Limits.Jobs,
		Log:       r.Log.With("session", r.Name),
	}
	if here, ok := r.log().Reader().(remote.Local); ok {
		r.follower = joblog.NewFollower(here, o)
	} else {
		r.follower = r.jobs.NewFollower(o) // all files on the host share their commands
	}
	r.follower.Expect(job.ExpectedStart)
	if watch.JustSubmitted() {
		r.follower.ReadOften() // the job may start at once
	}
	feed := joblog.Feed(detector)
	r.work.Go(func() {
		err := r.follower.Serve(ctx, func(c joblog.Chunk) {
			feed(c)
			r.logExists.Store(true)
			r.logWritten.CompareAndSwap(false, len(c.Data) > 0)
			watch.LogFound(c.Path)
			if submit.DiskIsFull(string(c.Data)) && !r.owner.Facts().FullDisk {
				r.owner.Change(func(f *facts.Facts) { f.FullDisk = true })
			}
			if end, said := facts.IdleEnd(c.Data); said {
				r.showIdleEnd(end)
			}
			latest.Offer(r.logFindings, detector.Finding())
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			r.Log.Error("the log is not followed any more", "session", r.Name, "err", err)
		}
	})
}

// showIdleEnd takes in when the job ends unless it is used; zero if it is used again.
func (r *Run) showIdleEnd(end time.Time) {
	if end.Equal(r.owner.Facts().IdleEnd) {
		return
	}
	r.owner.Change(func(f *facts.Facts) { f.IdleEnd = end })
	if now := time.Now(); end.After(now) {
		r.owner.Notify(api.NoticeIdle, fmt.Sprintf("%s ends at %s if unused: notebooks that are not saved are lost", r.Name, api.ClockText(end, now)))
	}
}

// handleFinding acts on the latest finding.
func (r *Run) handleFinding(f detect.Finding, job api.Job) {
	r.setFinding(f)
	r.announceOthers(job)
	switch {
	case f.Found && f.Ended && (!r.Current().Served || f.TakesOneClient()): // else it is asked
		r.prober.SetTarget(nil)
		r.stopServing(job.ID)
	case f.Found && f.Link != "":
		r.owner.Change(func(x *facts.Facts) { x.Link, x.Answers, x.Doing = f.Link, true, facts.Doing{} })
	case f.Found:
		r.prober.SetTarget(r.target(f, job))
	}
}

// stopServing waits for another server: the one that the log announced has stopped, and perhaps its job.
func (r *Run) stopServing(job string) {
	text := fmt.Sprintf("the server of job %s has stopped; waiting for a new one, or for the end of the job", job)
	if r.owner.Facts().Doing.Text != text {
		r.jobs.QuerySoon()
		r.owner.ClosePage(func(x *facts.Facts) { x.Doing = facts.Doing{Text: text} })
	}
}

// target is what to prove for a finding.
func (r *Run) target(f detect.Finding, job api.Job) *probe.Target {
	return &probe.Target{Finding: f, Job: job.ID, Node: job.Node, Files: r.jobs.RuntimeFiles(hosts.Runner{Host: r.host}, job)}
}

// proveShell has the prober run a command inside a job that serves no page, once it is
// known where the job runs.
func (r *Run) proveShell(job api.Job) {
	if job.State != api.JobRunning || job.Node == "" || r.prober.Target() != nil {
		return
	}
	r.ShowDoing("running a command inside job %s on %s", job.ID, job.Node)
	r.prober.SetTarget(&probe.Target{Shell: true, Job: job.ID, Node: job.Node})
}

// announceOthers makes the other pages of the log those of the session.
func (r *Run) announceOthers(job api.Job) {
	if r.others == nil {
		return // no log was read
	}
	r.owner.SetOthers(lists.Map(r.others, func(f detect.Finding) *probe.Page { return probe.NewPage(f.Name, r.probeOptions(), r.target(f, job)) }))
}

// setFinding keeps the latest finding.
func (r *Run) setFinding(f detect.Finding) {
	r.changed = r.changed || r.finding.Found && f.Endpoint != r.finding.Endpoint
	r.finding = f
	if f.Others != nil { // a runtime file knows of none
		r.others = f.Others
	}
}

// handleProbe acts on what the prober returned.
func (r *Run) handleProbe(p probe.Result) {
	switch {
	case p.Disconnected:
		// The host's state has the reason, which may arrive later otherwise. It is read here,
		// since the host may be connected again by now.
		r.owner.Change(func(f *facts.Facts) { f.Host, f.Answers = r.host.Status(), false })
	case p.Target != r.prober.Target(): // the log has announced another since
	case p.Route != nil:
		if p.Route.Inside == nil {
			r.nodes.SetServer(p.Target.Finding.Host, p.Route.Endpoint)
		}
		r.owner.OpenPage(p.Route)
		if r.follower != nil {
			r.follower.Settled() // the log is read less often
		}
	case p.Target.Finding.Ended:
		r.stopServing(p.Target.Job) // the prober goes on: one try that failed is no proof
	default:
		r.owner.Change(func(f *facts.Facts) {
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

// resume continues where the previous run stopped. Its log announces the new endpoint
// before the scheduler reports the move: an announcement belongs to this run if it
// names the new node, or if it was the last and names none, as an address does. It is
// probed before it is believed, once the scheduler has reported the node.
func (r *Run) resume(job api.Job) {
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

// log is where the log of the job is.
func (r *Run) log() logs.Log { return LogOf(r.owner.Config(), r.host) }

// LogOf is where the log of the job of a session with such a config is.
func LogOf(cfg configs.Session, host *tunnel.Host) logs.Log {
	return logs.Log{Config: cfg.Log, User: host.Status().User, Host: hosts.Runner{Host: host}}
}

// nudgeFollower has the log read often for a while: something has just changed.
func (r *Run) nudgeFollower() {
	if r.follower != nil {
		r.follower.ReadOften()
	}
}

// showReading says that the log is searched for the server's address.
func (r *Run) showReading(job api.Job) {
	r.ShowDoing("looking for the server address in the log of job %s: %s", job.ID, r.logPath)
}

// reportSilence says that the job has written nothing for a while, and takes it back
// when it writes.
func (r *Run) reportSilence(job api.Job) {
	if r.runningSince.IsZero() || time.Since(r.runningSince) < r.limits.Silent || r.finding.Found {
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
		r.owner.Change(func(f *facts.Facts) {
			f.Doing.Text = fmt.Sprintf("job %s has been running since %s, and %s", job.ID, api.ClockText(r.runningSince, time.Now()), r.silence)
			if job.Hint != api.HintSpooled { // which says why
				f.Doing.Hint = fmt.Sprintf("the job may still be setting up, or write to another file: set log = \"…\" in [session.%s]", f.Name)
			}
		})
	}
}

// searchWithoutLog looks for the server of a running job that has no readable log: in
// the runtime files that Jupyter servers write, and in the output that the scheduler
// still has.
func (r *Run) searchWithoutLog(ctx context.Context, job api.Job) {
	unplaced := job.Node == "" && job.Start.IsZero() // seen running by its log only
	if r.searching || job.State != api.JobRunning || unplaced {
		return
	}
	r.searching = true
	if job.Hint == api.HintSpooled {
		r.ShowDoing("PBS keeps the output of job %s on the node until it ends; looking for runtime files of Jupyter", job.ID)
	} else {
		r.ShowDoing("no readable log for job %s; looking for runtime files of Jupyter and for its output", job.ID)
	}
	r.work.Go(func() { r.searchRuntimeFiles(ctx, job) })
	r.work.Go(func() { r.searchStepOutput(ctx, job) })
}

// searchRuntimeFiles reads Jupyter's runtime files while no server answers.
func (r *Run) searchRuntimeFiles(ctx context.Context, job api.Job) {
	limits := r.Limits.Jobs
	files := r.jobs.RuntimeFiles(hosts.Runner{Host: r.host}, job)
	began := time.Now()
	for {
		if !r.owner.Facts().Answers {
			if f, ok := files.Find(ctx); ok {
				r.offerOther(ctx, f)
			} else if err := files.Err(); err != nil {
				r.ShowDoing("%v", err)
			}
		}
		if ctxtime.Sleep(ctx, limits.LogInterval(time.Since(began))) != nil {
			return
		}
	}
}

// searchStepOutput reads the output of the job's steps while no server answers. All
// jobs of a host take turns.
func (r *Run) searchStepOutput(ctx context.Context, job api.Job) {
	for ctxtime.Sleep(ctx, r.Limits.Jobs.LogStarting) == nil {
		if r.owner.Facts().Answers {
			continue
		}
		out, err := r.jobs.StepOutput(ctx, job.Ref())
		if errors.Is(err, jobwatch.ErrNoSteps) {
			return
		}
		if err != nil {
			r.Log.Debug("cannot read the output of the job", "session", r.Name, "err", err)
			continue
		}
		detector := r.Settings.Detector(r.owner.Config().App)
		_, _ = detector.Write(out)
		detector.Flush()
		if f := detector.Finding(); f.Found && !r.owner.Facts().Answers {
			r.offerOther(ctx, f)
		}
	}
}

// offerOther has a finding that is not of the log handled.
func (r *Run) offerOther(ctx context.Context, f detect.Finding) {
	select {
	case r.otherFindings <- f:
	case <-ctx.Done():
	}
}

// newNodes are the nodes of the session's job for this run.
func (r *Run) newNodes() *jobnode.Run {
	return jobnode.New(jobnode.Options{
		Host: r.host, Runner: hosts.Runner{Host: r.host}, Jobs: r.jobs, Grace: r.limits.Probe.NodeGrace, Log: r.Log,
		Open: func(o node.Options) *node.Node { return r.Hosts.Node(r.host, o) },
		Site: func() (configs.Site, bool) { return r.Settings.Site(r.owner.Config().Host) },
		Held: r.owner.HeldChanged,
	})
}

// containerNotice says that programs inside a session's job are not in the container of its
// server; "": there is none.
func containerNotice(known *settings.Settings, cfg *configs.Session) string {
	if cfg.Builtin() == "" {
		return ""
	}
	site, _ := known.Site(cfg.Host)
	enter, ok := cfg.BuiltinJob(known.Config().Host(cfg.Host), site, site.Scheduler).Container()
	switch {
	case !ok:
		return ""
	case enter == "":
		return "this is outside the container that the job's server runs in"
	}
	return "this is outside the container that the job's server runs in; to enter it: " + enter
}

// probed is a job for its prober.
type probed struct {
	*jobnode.Run
	of *Run
}

// probeOptions are those of a prober for a session's job.
func (r *Run) probeOptions() probe.Options {
	return probe.Options{Session: r.Name, Collect: r.owner.Config().Output, Job: probed{r.nodes, r}, Limits: r.limits.Probe, Log: r.Log}
}

// Host implements probe.Job.
func (p probed) Host() probe.Host { return p.Run.Host }

// Node implements probe.Job.
func (p probed) Node(ctx context.Context, name string) (probe.Node, error) {
	return p.Run.Node(ctx, name)
}

// Reaches implements probe.Job.
func (p probed) Reaches() probe.Reaches {
	r := p.of
	cfg := r.owner.Config()
	reaches := probe.Reaches{Config: cfg.Reach, Last: r.Store.Session(r.Name).Reach}
	if site, ok := r.Settings.Site(cfg.Host); ok {
		reaches.Site = site.Reach
	}
	return reaches
}
