package jobwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
)

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
			w.poll.lastQuery = time.Now()
			if tt.mine {
				w.poll.recordSubmitted(tt.job, true)
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
			w.poll.lastQuery = time.Now()
			w.poll.recordSubmitted(tt.before, true)
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
		w.poll.lastQuery = time.Now()
		w.poll.recordSubmitted(api.Job{ID: "7", State: api.JobQueued, Log: "/h/nb.o7"}, true)
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
		w.poll.recordSubmitted(job, true)
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
		w.poll.recordSubmitted(job, true)
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
