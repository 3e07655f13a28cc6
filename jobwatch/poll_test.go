package jobwatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

// undecided is a host with the programs of two schedulers, neither of which answers.
type undecided struct{ asked atomic.Int32 }

func (u *undecided) Run(ctx context.Context, _ string, stdin []byte) (remote.Result, error) {
	u.asked.Add(1)
	time.Sleep(50 * time.Millisecond) // in a synctest bubble: the round trip
	return jobtest.Answer(string(stdin), "\nmira\nlogin1\n", "", 0), ctx.Err()
}

// TestPollWithoutScheduler: a host whose scheduler is not known yet is asked seldom.
func TestPollWithoutScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &undecided{}
		x := serving(t, NewWatcher(u, Options{})).Watch("7")
		defer x.Close()
		time.Sleep(10 * time.Minute)
		if n := u.asked.Load(); n < 2 || n > 10 {
			t.Errorf("it was asked %d times in ten minutes", n)
		}
	})
}

// TestDetailTurnsOfArrays: an array takes no turns of other jobs.
func TestDetailTurnsOfArrays(t *testing.T) {
	t.Run("pbs", func(t *testing.T) {
		p := &pbsServer{}
		watchPBS(t, p, func(t *testing.T, w *Watcher) {
			for _, array := range []string{"20", "22"} { // before the others, which are asked for by their numbers
				p.add(array+"[].srv", "arr", "B")
				p.add(array+"[1].srv", "arr", "R", "array_id", array+"[].srv", "array_index", "1")
				defer w.Watch(array + "[].srv").Close()
			}
			var jobs []pbsJob
			var watches []*Watch
			for i := range 3 {
				id := fmt.Sprintf("%d.srv", 30+i)
				jobs = append(jobs, p.add(id, "notebook", "R"))
				watches = append(watches, w.Watch(id))
				defer watches[i].Close()
			}
			time.Sleep(10 * time.Minute)
			before := len(p.connections())
			time.Sleep(10 * time.Minute)
			if n := len(p.connections()) - before; n > 20 {
				t.Errorf("%d connections in ten minutes in which nothing changed", n)
			}
			p.set(jobs[2], "F", "Exit_status", "0")
			time.Sleep(75 * time.Second)
			if job := watches[2].Job(); job.State != api.JobFinished {
				t.Errorf("after it ended, the job is %+v", job)
			}
			if most := p.mostWithin(remote.DefaultLimits().QueryMin); most > remote.DefaultLimits().Connections {
				t.Errorf("%d connections in one round", most)
			}
		})
	})
	t.Run("slurm", func(t *testing.T) {
		watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
			running := api.Job{Name: "nb", State: api.JobRunning, Node: "cn1", Submitted: time.Now(), Start: time.Now(), End: time.Now().Add(9 * time.Hour)}
			c.mute = map[string]bool{}
			for i := range detailsPerRound { // arrays without a detail, before the job
				job := running
				job.ID = fmt.Sprintf("%d_1", 20+i)
				c.set(job)
				c.mute[job.ID] = true
				defer w.Watch(fmt.Sprint(20 + i)).Close()
			}
			job := running
			job.ID = "40"
			c.set(job)
			x := w.Watch("40")
			defer x.Close()
			time.Sleep(5 * time.Minute)
			if x.Job().Log == "" {
				t.Errorf("without its turn, the job is %+v", x.Job())
			}
			before := len(c.queries())
			time.Sleep(10 * time.Minute)
			if n := len(c.queries()) - before; n > 10 {
				t.Errorf("%d queries in ten minutes in which nothing changed", n)
			}
			job.State = api.JobFinished
			c.set(job)
			time.Sleep(75 * time.Second)
			if x.Job().State != api.JobFinished {
				t.Errorf("after it ended, the job is %+v", x.Job())
			}
		})
	})
	t.Run("gridengine", func(t *testing.T) {
		m, w := newGridEngine(t, "2 r 1", "2 qw 2-9:1", "3 r 1", "4 r", "5 r", "6 r")
		var last *Watch
		for _, id := range []string{"2", "3", "4", "5", "6"} {
			last = w.Watch(id)
			t.Cleanup(last.Close)
		}
		last.SeenRunning("cn01")
		round := func() {
			t.Helper()
			query(t, w, watchedOnly)
			if got := asked(t, m); len(got) > remote.DefaultLimits().Connections {
				t.Errorf("one round asked %q", got)
			}
		}
		round()
		setJobs(t, m, "2 r 1", "2 qw 2-9:1", "3 r 1", "4 r", "5 r")
		m.Write(t, "account", geAccount("6", 0))
		round()
		round()
		if job := last.Job(); job.State != api.JobFinished {
			t.Errorf("after it ended, the job is %+v", job)
		}
	})
}

// TestWatchKnownNode: the list does not move a job away from the node of its detail.
func TestWatchKnownNode(t *testing.T) {
	detail := api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}
	row := api.Job{ID: "7", State: api.JobRunning, Node: "login1"} // where srun was typed
	x := &Watch{id: "7", poll: &poll{host: &host{}}, job: detail}
	x.setDetail(row)
	if got := x.withKnownNode(row); got.Node != "cn01" {
		t.Errorf("the node is %q", got.Node)
	}
	if row.Node = "login2"; x.withKnownNode(row).Node != "login2" || !x.wantsDetail(newScheduler(slurmName), row) {
		t.Error("another node in the list is not noticed")
	}
}
