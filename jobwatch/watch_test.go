package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

// cluster is a Runner in memory: a Slurm with the jobs that a test adds.
type cluster struct {
	mu     sync.Mutex
	jobs   map[string]api.Job
	order  []string
	silent bool            // the controller does not answer
	broken bool            // the link is down
	mute   map[string]bool // the jobs of which scontrol says nothing that can be read
	busy   int
	count  map[string]int
	asked  []time.Time // of the queries

	accounted string // what sacct prints
}

func newCluster() *cluster { return &cluster{jobs: map[string]api.Job{}, count: map[string]int{}} }

func (c *cluster) set(job api.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.jobs[job.ID]; !ok {
		c.order = append(c.order, job.ID)
	}
	c.jobs[job.ID] = job
}

// forget has the controller forget a job, and the accounting say its state, if any.
func (c *cluster) forget(id, accounted string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, id)
	c.order = slices.DeleteFunc(c.order, func(o string) bool { return o == id })
	c.accounted = ""
	if accounted != "" {
		c.accounted = fmt.Sprintf("%s|%s|0:0|%d|%d|Unknown|cn01|p||600|nb\n", id, accounted, time.Now().Unix(), time.Now().Unix())
	}
}

// queries are the times of the queries for the list.
func (c *cluster) queries() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// commands are how often each program was run.
func (c *cluster) commands() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// checkGaps fails the test if two queries were closer than ten seconds.
func (c *cluster) checkGaps(t *testing.T) {
	t.Helper()
	asked := c.queries()
	for i := 1; i < len(asked); i++ {
		if gap := asked[i].Sub(asked[i-1]); gap < 10*time.Second {
			t.Errorf("two queries %s apart", gap)
		}
	}
}

func (c *cluster) be(silent, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent, c.broken = silent, broken
}

var (
	program = regexp.MustCompile(`limit (squeue|scontrol|sacct|scancel)`)
	jobOf   = regexp.MustCompile(`show job '(\w+)'`)
)

func (c *cluster) Run(ctx context.Context, _ string, stdin []byte) (remote.Result, error) {
	name := "look for a file"
	if m := program.FindStringSubmatch(string(stdin)); m != nil {
		name = m[1]
	}
	c.mu.Lock()
	c.count[name]++
	if name == "squeue" {
		c.asked = append(c.asked, time.Now())
	}
	if name != "look for a file" {
		c.busy++
	}
	crowd := c.busy
	c.mu.Unlock()
	time.Sleep(50 * time.Millisecond) // in a synctest bubble: the round trip
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "look for a file" {
		return c.files(string(stdin))
	}
	c.busy--
	if crowd > 1 {
		return remote.Result{}, fmt.Errorf("%d commands at once", crowd)
	}
	if c.broken {
		return remote.Result{}, errors.New("no link")
	}
	out, errout, exit := c.answer(name, string(stdin))
	return jobtest.Answer(string(stdin), out, errout, exit), ctx.Err()
}

// files answers which of the requested logs exist: those of running jobs.
func (c *cluster) files(script string) (remote.Result, error) {
	if c.broken {
		return remote.Result{}, errors.New("no link")
	}
	return jobtest.Files(script, func(path string) (string, bool) {
		id := strings.TrimSuffix(strings.TrimPrefix(path, "/h/slurm-"), ".out")
		return "", c.jobs[id].State == api.JobRunning
	}), nil
}

func (c *cluster) answer(name, script string) (out, errout string, exit int) {
	switch {
	case c.silent:
		return "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1
	case name == "squeue":
		var b strings.Builder
		for _, id := range c.order {
			if job := c.jobs[id]; !job.State.Ended() {
				b.WriteString(record(job))
			}
		}
		return b.String(), "", 0
	case name == "scontrol":
		id := jobOf.FindStringSubmatch(script)[1]
		job, ok := c.jobs[id]
		if c.mute[id] {
			return "", "scontrol: error: internal error", 1
		}
		if !ok {
			return "", "slurm_load_jobs error: Invalid job id specified", 1
		}
		why := "None"
		if job.State == api.JobQueued {
			why = "Resources"
		}
		return fmt.Sprintf("JobId=%s JobName=%s UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=%s Reason=%s Dependency=(null) Restarts=%d ExitCode=0:0 SubmitTime=%d StartTime=%d EndTime=%d Partition=p NodeList=%s Command=(null) WorkDir=/h StdErr=/h/e StdIn=/dev/null StdOut=/h/slurm-%s.out Power=",
			id, job.Name, slurmWords[job.State], why, job.Restarts, job.Submitted.Unix(), job.Start.Unix(), job.End.Unix(), job.Node, id), "", 0
	case name == "sacct" && c.accounted != "":
		return c.accounted, "", 0
	case name == "sacct":
		return "", "Slurm accounting storage is disabled", 1
	}
	return "", "", 0
}

var slurmWords = map[api.JobState]string{
	api.JobQueued: "PENDING", api.JobRunning: "RUNNING", api.JobFinished: "COMPLETED", api.JobTimeout: "TIMEOUT",
}

func record(job api.Job) string {
	return jobtest.SqueueRecord(job.ID, "N/A", "N/A", slurmWords[job.State], "p", job.Node, fmt.Sprint(job.Submitted.Unix()),
		fmt.Sprint(job.Start.Unix()), fmt.Sprint(job.End.Unix()), fmt.Sprint(job.Restarts), "Resources", "(null)", "/h/listed.%j", "1", "u", job.Node, "north", job.Name)
}

// serve runs a Watcher of the cluster for the rest of the bubble.
func serve(t *testing.T, c *cluster) *Watcher {
	t.Helper()
	return serving(t, NewWatcher(c, Options{Scheduler: slurmName}))
}

// watchCluster runs test in a synctest bubble with a cluster and its Watcher.
func watchCluster(t *testing.T, test func(t *testing.T, c *cluster, w *Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		test(t, c, serve(t, c))
	})
}

// TestWatch: a watch tells a job's life.
func TestWatch(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		job := api.Job{ID: "7", Name: "nb", State: api.JobQueued, Submitted: time.Now()}
		c.set(job)
		x := w.Watch("7")
		defer x.Close()
		next := func(want api.JobState, within time.Duration) api.Job {
			t.Helper()
			began := time.Now()
			got := (<-x.C()).Job
			for got.State != want && time.Since(began) <= within {
				got = (<-x.C()).Job
			}
			if got.State != want || time.Since(began) > within {
				t.Fatalf("got %+v after %s", got, time.Since(began))
			}
			return got
		}
		if got := next(api.JobQueued, time.Second); got.Log != "/h/slurm-7.out" || got.Hint == "" {
			t.Errorf("got %+v", got)
		}
		job.State, job.Node, job.Start, job.End = api.JobRunning, "cn1", time.Now(), time.Now().Add(time.Hour)
		c.set(job)
		if got := next(api.JobRunning, 80*time.Second); got.Node != "cn1" || got.End.IsZero() || got.Log == "" {
			t.Errorf("got %+v", got)
		}
		// Requeued onto another node.
		job.State, job.Node, job.Restarts = api.JobQueued, "", 1
		c.set(job)
		next(api.JobQueued, 80*time.Second)
		job.State, job.Node = api.JobRunning, "cn2"
		c.set(job)
		w.QuerySoon() // its log appeared
		if got := next(api.JobRunning, 11*time.Second); got.Node != "cn2" || got.Restarts != 1 {
			t.Errorf("got %+v", got)
		}
		// A short failure is ignored; a longer one is reported, with the known facts.
		c.be(true, false)
		got := next(api.JobUnknown, 5*time.Minute)
		if got.Node != "cn2" || got.Log == "" || !strings.Contains(got.Hint, "has not responded since") {
			t.Errorf("got %+v", got)
		}
		c.be(false, false)
		next(api.JobRunning, 6*time.Minute)
		// A lost connection is reported by the host's state.
		c.be(false, true)
		time.Sleep(10 * time.Minute)
		if got := x.Job(); got.State != api.JobRunning {
			t.Errorf("got %+v", got)
		}
		c.be(false, false)
		job.State = api.JobTimeout
		c.set(job)
		next(api.JobTimeout, 80*time.Second)
		asked := len(c.queries())
		time.Sleep(time.Hour)
		if len(c.queries()) != asked {
			t.Errorf("an ended job was asked for %d times", len(c.queries())-asked)
		}
	})
}

// TestWatchUnknownJob: a job that nobody knows is said to be gone.
func TestWatchUnknownJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		x := serve(t, c).Watch("404")
		defer x.Close()
		if got := <-x.C(); got.State != api.JobNeverRan || !strings.Contains(got.Hint, "404") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestWatchEnd: the end of a job keeps what only the queue knew.
func TestWatchEnd(t *testing.T) {
	running := api.Job{ID: "7", State: api.JobRunning, Restarts: 1, End: time.Now().Add(time.Hour)}
	x := &Watch{id: "7", c: make(chan Report, 1), poll: &poll{host: &host{}}}
	x.update(newScheduler(slurmName), running)
	if got := x.gone(newScheduler(slurmName)); !got.State.Ended() || !got.End.IsZero() {
		t.Errorf("it left the queue: %+v", got)
	}
	x.update(newScheduler(slurmName), api.Job{ID: "7", State: api.JobTimeout}) // as the accounting has it
	if got := x.Job(); got.Restarts != 1 {
		t.Errorf("it ended: %+v", got)
	}
}

// TestPollIdle: nothing is asked while nothing is watched.
func TestPollIdle(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		w.QuerySoon()
		time.Sleep(24 * time.Hour)
		if len(c.commands()) != 0 {
			t.Errorf("ran %v", c.commands())
		}
	})
}

// TestObserve: an observed job causes no query.
func TestObserve(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		job := api.Job{ID: "7", State: api.JobRunning, Node: "cn1", Submitted: time.Now(), Start: time.Now()}
		c.set(job)
		x := w.Observe("7")
		defer x.Close()
		time.Sleep(time.Hour)
		if n := len(c.queries()); n != 0 {
			t.Errorf("%d queries", n)
		}
		for _, state := range []api.JobState{api.JobRunning, api.JobTimeout} {
			job.State = state
			c.set(job)
			if _, err := w.Jobs(t.Context()); err != nil { // the user asks
				t.Fatal(err)
			}
			if got := <-x.C(); got.State != state {
				t.Errorf("got %+v, want %s", got, state)
			}
			time.Sleep(time.Hour)
		}
		if n := len(c.queries()); n != 2 {
			t.Errorf("%d queries for two answers", n)
		}
	})
}

// TestPollShared: users share one answer and never ask more than once in ten seconds.
func TestPollShared(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		c.set(api.Job{ID: "1", State: api.JobRunning, Node: "n", Submitted: time.Now()})
		x := w.Watch("1")
		defer x.Close()
		for range 60 {
			var crowd sync.WaitGroup
			for range 5 {
				crowd.Go(func() {
					if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 1 {
						t.Errorf("got %v, %v", jobs, err)
					}
					w.QuerySoon()
				})
			}
			crowd.Wait()
			time.Sleep(700 * time.Millisecond)
		}
		c.checkGaps(t)
		if n := len(c.queries()); n < 4 || n > 8 {
			t.Errorf("%d queries in %s", n, 42*time.Second)
		}
	})
}

// TestRefresh: a refresh waits for the query under way.
func TestRefresh(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		c.set(api.Job{ID: "1", State: api.JobRunning, Node: "n", Submitted: time.Now()})
		x := w.Watch("1")
		defer x.Close()
		synctest.Wait() // the first query has begun, and its answer is on the way
		if got := x.Job().State; got != api.JobUnknown || len(c.queries()) != 1 {
			t.Fatalf("the job is %s after %d queries", got, len(c.queries()))
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := w.Refresh(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a refresh that may not wait returned %v", err)
		}
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := x.Job().State; got != api.JobRunning {
			t.Errorf("after a refresh the job is %s", got)
		}
		if n := len(c.queries()); n != 1 {
			t.Errorf("%d queries", n)
		}
	})
}

// TestPollPending: a long pending job is asked for seldom.
func TestPollPending(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		c.set(api.Job{ID: "1", State: api.JobQueued, Submitted: time.Now()})
		x := w.Watch("1")
		defer x.Close()
		time.Sleep(time.Hour)
		first := len(c.queries())
		time.Sleep(4 * time.Hour)
		if later := len(c.queries()) - first; later > 4*12 || later < 30 {
			t.Errorf("%d queries in the first hour, %d in the next four", first, later)
		}
	})
}

// TestPollDay counts every command of a day in which ten sessions come
// and go on one host, people query now and then, and the controller is down once.
func TestPollDay(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		var people sync.WaitGroup
		for i := range 10 {
			people.Go(func() {
				time.Sleep(time.Duration(i) * 47 * time.Second)
				for run := range 3 { // three jobs a day
					job := api.Job{ID: fmt.Sprintf("%d%d", run+1, i), Name: "nb", State: api.JobQueued, Submitted: time.Now()}
					c.set(job)
					x := w.Watch(job.ID)
					time.Sleep(time.Duration(5+i*10) * time.Minute)
					job.State, job.Node, job.Start = api.JobRunning, "cn1", time.Now()
					c.set(job)
					w.QuerySoon()
					time.Sleep(4 * time.Hour)
					if _, err := w.Jobs(t.Context()); err != nil {
						t.Log(err)
					}
					time.Sleep(2 * time.Hour)
					job.State = api.JobFinished
					c.set(job)
					for !x.Job().State.Ended() {
						<-x.C()
					}
					x.Close()
				}
			})
		}
		time.Sleep(12 * time.Hour)
		c.be(true, false)
		time.Sleep(20 * time.Minute)
		c.be(false, false)
		time.Sleep(12*time.Hour - 20*time.Minute)
		total := 0
		for name, n := range c.commands() {
			if name != "look for a file" {
				total += n
			}
		}
		t.Logf("in 24 h with 10 sessions: %d queries of the scheduler; all commands: %v", total, c.commands())
		if total >= 24*60 {
			t.Errorf("%d queries", total)
		}
		c.checkGaps(t)
		people.Wait()
	})
}

// TestFind: the newest of several jobs is adopted and ended ones are not.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := NewWatcher(c, Options{Scheduler: slurmName})
		c.set(api.Job{ID: "9", Name: "nb", State: api.JobQueued, Submitted: time.Now()})
		c.set(api.Job{ID: "10", Name: "nb", State: api.JobQueued, Submitted: time.Now()})
		c.set(api.Job{ID: "11", Name: "nb", State: api.JobFinished, Submitted: time.Now()})
		c.set(api.Job{ID: "12", Name: "other", State: api.JobRunning, Submitted: time.Now().Add(time.Hour)})
		job, ok, err := w.Find(t.Context(), Query{Name: "nb"})
		if err != nil || !ok || job.ID != "10" || job.Log != "/h/slurm-10.out" {
			t.Errorf("got %+v, %v, %v", job, ok, err)
		}
		if job, ok, err := w.Find(t.Context(), Query{ID: "11"}); err != nil || !ok || job.State != api.JobFinished {
			t.Errorf("by id: got %+v, %v, %v", job, ok, err)
		}
		if job, ok, err := w.Find(t.Context(), Query{Name: "none"}); err != nil || ok {
			t.Errorf("got %+v, %v, %v", job, ok, err)
		}
		if job, ok, err := w.Find(t.Context(), Query{ID: "404"}); err != nil || ok {
			t.Errorf("got %+v, %v, %v", job, ok, err)
		}
	})
}

// TestLogFound: only the own log of a job just submitted shows that it runs.
func TestLogFound(t *testing.T) {
	queued := api.Job{ID: "7", State: api.JobQueued, Reason: "Priority", Hint: "other jobs come first", Log: "/h/slurm-7.out"}
	requeued, held := queued, queued
	requeued.Restarts = 1
	held.State = api.JobHeld
	for name, tt := range map[string]struct {
		job   api.Job
		mine  bool // we have just submitted it
		file  string
		shown api.JobState
	}{
		"its own log":              {queued, true, "/h/slurm-7.out", api.JobRunning},
		"a log of several jobs":    {queued, true, "/h/jupyter.log", api.JobQueued},
		"the log of another job":   {queued, true, "/h/slurm-17.out", api.JobQueued},
		"the log of an old job":    {queued, false, "/h/slurm-7.out", api.JobQueued},
		"the log of the first run": {requeued, true, "/h/slurm-7.out", api.JobQueued},
		"released meanwhile":       {held, true, "/h/slurm-7.out", api.JobRunning},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatcher(newCluster(), Options{Scheduler: slurmName})
			w.lastQuery = time.Now()
			if tt.mine {
				w.recordSubmitted(tt.job, true)
			}
			x := w.Watch("7")
			defer x.Close()
			x.update(kindNamed(slurmName).New(), tt.job)
			x.LogFound(tt.file)
			job := x.Job()
			if job.State != tt.shown {
				t.Errorf("the job is %s", job.State)
			}
			if job.State == api.JobRunning && (job.Reason != "" || job.Hint != "" || job.Log == "") {
				t.Errorf("the job that runs is %+v", job)
			}
		})
	}
}

// TestLogFoundThenHeld: a job that is held after its log was found is shown so.
func TestLogFoundThenHeld(t *testing.T) {
	queued := api.Job{ID: "7", State: api.JobQueued, Log: "/h/nb.o7"}
	inError := api.Job{ID: "7", State: api.JobHeld, Reason: "can't exec", Log: "/h/nb.o7"}
	for name, tt := range map[string]struct {
		before, answer api.Job
		shown          api.JobState
	}{
		"an error after the log": {queued, inError, api.JobHeld},
		"an old answer":          {queued, queued, api.JobRunning},
		"an old hold":            {inError, inError, api.JobRunning},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatcher(jobtest.NewMachine(t), Options{Scheduler: gridEngineName})
			w.lastQuery = time.Now()
			w.recordSubmitted(tt.before, true)
			x := w.Watch("7")
			defer x.Close()
			x.LogFound("/h/nb.o7")
			if x.update(newScheduler(gridEngineName), tt.answer); x.Job().State != tt.shown {
				t.Errorf("%+v", x.Job())
			}
		})
	}
}

// TestLogFoundThenGone: a job that only its log showed to run did run.
func TestLogFoundThenGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(newCluster(), Options{Scheduler: gridEngineName})
		w.lastQuery = time.Now()
		w.recordSubmitted(api.Job{ID: "7", State: api.JobQueued, Log: "/h/nb.o7"}, true)
		x := w.Watch("7")
		defer x.Close()
		x.LogFound("/h/nb.o7")
		g := newScheduler(gridEngineName)
		if job := x.gone(g); job.State != api.JobFinished {
			t.Errorf("%+v", job)
		}
	})
}

// TestLogFoundBeforeTheAnswer has a scheduler that answers from a cache.
func TestLogFoundBeforeTheAnswer(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		job := api.Job{ID: "7", Name: "nb", State: api.JobQueued, Submitted: time.Now(), Log: "/h/slurm-7.out"}
		c.set(job)
		w.recordSubmitted(job, true)
		x := w.Watch("7")
		defer x.Close()
		time.Sleep(time.Second)
		x.LogFound("/h/slurm-7.out")
		time.Sleep(Grace - 2*time.Second) // it is asked meanwhile
		if got := x.Job(); got.State != api.JobRunning || len(c.queries()) < 3 {
			t.Errorf("after %d stale answers the job is %+v", len(c.queries()), got)
		}
		c.checkGaps(t)
		job.State, job.Node, job.Start = api.JobRunning, "cn1", time.Now()
		c.set(job)
		time.Sleep(2 * time.Minute)
		if got := x.Job(); got.Node != "cn1" || got.Start.IsZero() {
			t.Errorf("once the scheduler knows, the job is %+v", got)
		}
		job.State, job.Node, job.Restarts = api.JobQueued, "", 1
		c.set(job)
		time.Sleep(2 * time.Minute)
		x.LogFound("/h/slurm-7.out") // its old log still grows
		if got := x.Job(); got.State != api.JobQueued {
			t.Errorf("after a requeue the job is %+v", got)
		}
	})
}

// TestLogFoundThenDenied: a scheduler that insists is believed.
func TestLogFoundThenDenied(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		job := api.Job{ID: "7", Name: "nb", State: api.JobQueued, Submitted: time.Now(), Log: "/h/slurm-7.out"}
		c.set(job)
		w.recordSubmitted(job, true)
		x := w.Watch("7")
		defer x.Close()
		x.LogFound("/h/slurm-7.out")
		time.Sleep(Grace + 2*time.Minute)
		x.LogFound("/h/slurm-7.out")
		if got := x.Job(); got.State != api.JobQueued {
			t.Errorf("the job is %+v", got)
		}
	})
}

// TestCancelledBeforeStart: a list that is older than the end of a queued job does not make it one that ran.
func TestCancelledBeforeStart(t *testing.T) {
	g := newScheduler(gridEngineName)
	x := &Watch{id: "7", c: make(chan Report, 1), poll: &poll{host: &host{}}}
	queued := api.Job{ID: "7", State: api.JobQueued}
	x.update(g, queued)
	x.poll.cancelled = map[string]time.Time{"7": time.Now()}
	x.update(g, queued)
	if x.job.State != api.JobCompleting {
		t.Errorf("a job that was cancelled is %s", x.job.State)
	}
	if got := x.gone(g); got.State != api.JobNeverRan {
		t.Errorf("it is %s: %s", got.State, got.Hint)
	}
}
