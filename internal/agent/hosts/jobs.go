package hosts

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

const (
	// maxCandidates is how many running jobs are inspected for servers, if the scheduler
	// allows so many.
	maxCandidates = 10
	// candidateLines is how much of a job's log is read for that.
	candidateLines = 400
	// servingTimeout is how long a look may search the logs of the user's running jobs.
	servingTimeout = 10 * time.Second
)

// Jobs lists the user's jobs on a connected host, with those that have ended if wanted.
func (h *Hosts) Jobs(ctx context.Context, host string, ended bool) (api.JobsResponse, error) {
	jobs, err := h.ConnectedWatcher(ctx, host)
	if err != nil {
		return api.JobsResponse{}, err
	}
	list, err := jobs.Jobs(ctx)
	if err == nil && ended {
		var over []api.Job
		over, err = jobs.Recent(ctx)
		list = withEnded(list, over)
	}
	slices.SortStableFunc(list, jobwatch.CompareJobs)
	return api.JobsResponse{Jobs: append([]api.Job{}, list...)}, SchedulerError(host, err)
}

// withEnded adds jobs that have ended to a list of the queue, each job once. The list may be older, and has a
// job until its node is free again: the end counts, unless the job was started again after it.
func withEnded(list, over []api.Job) []api.Job {
	again := func(j, o api.Job) bool {
		return j.Ref() == o.Ref() && j.Restarts > 0 && (j.State.Waiting() || j.Start.After(o.End))
	}
	over = slices.DeleteFunc(over, func(o api.Job) bool { return slices.ContainsFunc(list, func(j api.Job) bool { return again(j, o) }) })
	list = slices.DeleteFunc(list, func(j api.Job) bool {
		return slices.ContainsFunc(over, func(o api.Job) bool { return o.Ref() == j.Ref() })
	})
	return append(list, over...)
}

// LastJobs are the jobs that a host's scheduler reported last. It queries no scheduler and makes
// no connection.
func (h *Hosts) LastJobs(host string) []api.Job {
	var list []api.Job
	for _, w := range h.watchers.of(host) {
		list = append(list, w.LastJobs()...)
	}
	return list
}

// Job returns all details of one job.
func (h *Hosts) Job(ctx context.Context, host, id string) (api.Job, error) {
	jobs, err := h.ConnectedWatcher(ctx, host)
	if err != nil {
		return api.Job{}, err
	}
	job, found, err := jobs.Find(ctx, jobwatch.Query{ID: id})
	switch {
	case err != nil:
		return api.Job{}, SchedulerError(host, err)
	case !found:
		return api.Job{}, api.Errorf(api.CodeFailed, "no job %q on %s", id, host).
			WithHint("`tunctl jobs %s --all` lists your jobs", host)
	}
	return job, nil
}

// Scheduler returns the scheduler of a connected host.
func (h *Hosts) Scheduler(ctx context.Context, host string) (api.SchedulerResponse, error) {
	jobs, err := h.ConnectedWatcher(ctx, host)
	if err != nil {
		return api.SchedulerResponse{}, err
	}
	name, err := jobs.Scheduler(ctx)
	return api.SchedulerResponse{Scheduler: name}, SchedulerError(host, err)
}

// SchedulerError says which host has the scheduler that does not respond.
func SchedulerError(host string, err error) error {
	if err == nil || !IsNoAnswer(err) {
		return err
	}
	return api.Errorf(api.CodeUnreachable, "%s: %w", host, err).WithHint("jobs keep running; try again in a few minutes")
}

// Running are the user's running jobs on a host.
func (h *Hosts) Running(ctx context.Context, host string) ([]api.Job, error) {
	all, err := h.Watcher(host).Jobs(ctx)
	return slices.DeleteFunc(all, func(j api.Job) bool { return j.State != api.JobRunning }), err
}

// Inspect searches the logs of the newest of the running jobs for servers.
func (h *Hosts) Inspect(ctx context.Context, host string, running []api.Job) []api.Candidate {
	slices.SortStableFunc(running, func(x, y api.Job) int {
		return cmp.Or(y.Submitted.Compare(x.Submitted), cmp.Compare(len(y.ID), len(x.ID)), cmp.Compare(y.ID, x.ID))
	})
	list := []api.Candidate{}
	jobs := h.Watcher(host)
	looks := jobs.MaxDetails(ctx, maxCandidates)
	for i, job := range running {
		c := api.Candidate{Job: job}
		if i < looks {
			if full, found, err := jobs.Find(ctx, jobwatch.Query{ID: job.Ref()}); err == nil && found {
				c.Job = full
			}
			c.App, c.Serve = h.detectServer(ctx, host, c.Job)
		}
		list = append(list, c)
	}
	return list
}

// endLines is how much of the log of a job that is over is read for how it ended.
const endLines = 5

// LogEnd is the end of the log of a job that finished, or is gone, while nobody followed it; "" if it cannot be
// read.
func (h *Hosts) LogEnd(ctx context.Context, host string, job api.Job) string {
	if job.State != api.JobFinished && job.State != api.JobUnknown {
		return ""
	}
	return string(h.tail(ctx, host, job, endLines))
}

// tail is the end of a job's log; nil if it cannot be read.
func (h *Hosts) tail(ctx context.Context, host string, job api.Job, lines int) []byte {
	if job.Log == "" {
		return nil
	}
	text, err := joblog.Tail(ctx, Runner{Host: h.Pool.Host(host)}, job.Log, lines)
	if err != nil {
		h.opt.Log.Debug("cannot read the log of a job", "job", job.ID, "err", err)
	}
	return text
}

// detectServer returns the server in the last lines of a job's log, if any.
func (h *Hosts) detectServer(ctx context.Context, host string, job api.Job) (app, where string) {
	d := h.opt.Settings.Detector("")
	_, _ = d.Write(h.tail(ctx, host, job, candidateLines))
	d.Flush()
	f := d.Finding()
	switch {
	case !f.Found || f.Ended:
		return "", ""
	case f.Link != "":
		return f.App, f.Link
	}
	return f.App, f.Address()
}

// Look finds out what a connected host has for a first session there.
func (h *Hosts) Look(ctx context.Context, host string) (api.Look, error) {
	if err := h.Connected(ctx, host); err != nil {
		return api.Look{}, err
	}
	look, err := h.Watcher(host).Discover(ctx)
	if err != nil {
		return look, SchedulerError(host, err)
	}
	h.opt.Store.SetFound(host, choicesIn(look))
	look.Serving = h.servingJobs(ctx, host)
	return look, nil
}

// Free is what the user may use on a connected host now, not older than the site's time between queries.
func (h *Hosts) Free(ctx context.Context, host string) (api.Free, error) {
	if err := h.Connected(ctx, host); err != nil {
		return api.Free{}, err
	}
	free, err := h.Watcher(host).Free(ctx)
	free.Host = host
	return free, SchedulerError(host, err)
}

// Found are the values that a look or a fresh [Hosts.Free] found for choices.
func (h *Hosts) Found(host string) map[string][]string {
	found, most := h.opt.Store.Found(host), 0
	for _, w := range h.watchers.of(host) {
		if free, fresh := w.KnownFree(); fresh {
			most = max(most, free.Cluster.FreeGPUs)
			for _, p := range free.Partitions {
				most = max(most, p.FreeGPUs)
			}
		}
	}
	if most == 0 {
		return found
	}
	if found = maps.Clone(found); found == nil {
		found = map[string][]string{}
	}
	for n := 1; n <= min(most, maxGPUChoice); n *= 2 {
		found["gpus"] = append(found["gpus"], strconv.Itoa(n))
	}
	return found
}

// maxGPUChoice is how many GPUs are offered at most.
const maxGPUChoice = 16

// choicesIn are the values that a look found for choices, by their names, and the scheduler.
func choicesIn(look api.Look) map[string][]string {
	found := map[string][]string{"scheduler": {look.Scheduler}}
	add := func(values []string, names ...string) {
		for _, name := range names {
			for _, value := range values {
				if !slices.Contains(found[name], value) {
					found[name] = append(found[name], value)
				}
			}
		}
	}
	for _, a := range look.Accounts {
		add([]string{a.Name}, "account", "project")
		add(a.QoS, "qos")
	}
	for _, p := range look.Partitions {
		add([]string{p.Name}, "partition", "queue")
		add(p.GPUTypes, "gpu_type")
	}
	return found
}

// servingJobs are the user's running jobs whose logs announce a server, as `tunctl attach`
// finds them. It is a part of a look that may fail.
func (h *Hosts) servingJobs(ctx context.Context, host string) []api.Candidate {
	ctx, cancel := context.WithTimeout(ctx, servingTimeout)
	defer cancel()
	running, err := h.Running(ctx, host)
	if err != nil {
		h.opt.Log.Debug("cannot list the jobs of a host", "host", host, "err", err)
		return []api.Candidate{}
	}
	return slices.DeleteFunc(h.Inspect(ctx, host, running), func(c api.Candidate) bool { return c.App == "" })
}

// watcherKey identifies a job watcher. The name of a host is not enough: the config can
// give it another scheduler or another account.
type watcherKey struct {
	host, account string
	scheduler     string
	private       string
	limits        remote.Limits
}

// watchers are the job watchers that were needed so far.
type watchers struct {
	mu    sync.Mutex
	ctx   context.Context // of Start; watchers end with it
	work  *sync.WaitGroup
	byKey map[watcherKey]*jobwatch.Watcher
}

// of are the watchers of a host, also those of earlier configs.
func (l *watchers) of(host string) []*jobwatch.Watcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*jobwatch.Watcher
	for key, w := range l.byKey {
		if key.host == host {
			list = append(list, w)
		}
	}
	return list
}

// Watcher returns the job watcher of a host as it is configured now.
func (h *Hosts) Watcher(host string) *jobwatch.Watcher {
	w, _ := h.WatcherOn(host)
	return w
}

// WatcherOn returns the job watcher of a host as it is configured now, which its
// sessions share, and its account; "" if the host was never connected. A watcher of an
// earlier config serves those who have it, and is idle without them.
func (h *Hosts) WatcherOn(host string) (w *jobwatch.Watcher, account string) {
	options, on := h.WatchOptions(host), h.Pool.Host(host)
	key := watcherKey{host: host, account: on.Account(), scheduler: options.Scheduler, private: options.Private, limits: options.Limits}
	l := &h.watchers
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.byKey[key]
	if !ok {
		w = jobwatch.NewWatcher(Runner{on, key.account}, options)
		l.byKey[key] = w
		ctx := l.ctx
		l.work.Go(func() { _ = w.Serve(ctx) }) // until ctx ends
	}
	return w, key.account
}

// ConnectedWatcher is Watcher for a host that must be connected.
func (h *Hosts) ConnectedWatcher(ctx context.Context, host string) (*jobwatch.Watcher, error) {
	if err := h.Connected(ctx, host); err != nil {
		return nil, err
	}
	return h.Watcher(host), nil
}
