package lab

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// crowd queues jobs that stay there.
func crowd(t *testing.T, c *Cluster, n int) {
	t.Helper()
	for range n {
		o := order{name: "crowd", queue: pbsQueue, workDir: c.Home(), limit: time.Hour, held: true, text: "#!/bin/sh\n"}
		if _, err := c.batch.submit(o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobwatchMakesFewConnectionsBesides500Jobs(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]bool{"with history": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c := practice(t, Options{Dialect: PBS, QueueFor: -1})
			c.History(history)
			crowd(t, c, 500)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			w := jobwatch.NewWatcher(runner{dial(t, c)}, jobwatch.Options{Limits: remote.PracticeLimits()})
			job, err := w.Submit(ctx, jobwatch.Submission{
				Tag: "t1", Content: []byte("#!/bin/sh\n#PBS -N a-name-of-more-than-fifteen\nexec sleep 60\n"), Base: "x.sh",
			})
			if err != nil {
				t.Fatal(err)
			}
			if job.State == api.JobUnknown || job.Log == "" {
				t.Errorf("the new job is %+v", job)
			}
			watch := w.Watch(job.ID)
			defer watch.Close()
			for round := range 5 {
				before := c.Connections()
				if err := w.Refresh(ctx); err != nil {
					t.Fatal(err)
				}
				w.QuerySoon()
				if got := c.Connections() - before; got > 2 {
					t.Errorf("round %d made %d connections", round, got)
				}
			}
			if job := watch.Job(); job.State != api.JobRunning || !strings.HasPrefix(job.Node, "cn0") || job.End.IsZero() {
				t.Errorf("the job is %+v", job)
			}
			for what, ask := range map[string]func() (int, error){
				"all jobs": func() (int, error) {
					jobs, err := w.Jobs(ctx)
					return len(jobs) - 500, err
				},
				"ended jobs": func() (int, error) {
					jobs, err := w.Recent(ctx)
					return 1 - len(jobs), err
				},
				"by tag": func() (int, error) {
					_, found, err := w.Find(ctx, jobwatch.Query{Tag: "t1"})
					return map[bool]int{true: 1}[found], err
				},
			} {
				before := c.Connections()
				if n, err := ask(); err != nil || n != 1 {
					t.Errorf("%s: %d, %v", what, n, err)
				}
				if got := c.Connections() - before; got > 2 {
					t.Errorf("%s made %d connections", what, got)
				}
			}
			found, ok, err := w.Find(ctx, jobwatch.Query{Name: "a-name-of-more-than-fifteen"})
			if err != nil || !ok || found.ID != job.ID {
				t.Errorf("by name: %+v, %v, %v", found, ok, err)
			}
			if err := w.Cancel(ctx, job.ID); err != nil {
				t.Fatal(err)
			}
			if again, ok, err := w.Find(ctx, jobwatch.Query{Name: "a-name-of-more-than-fifteen"}); ok || err != nil {
				t.Errorf("after the cancel: %+v, %v", again, err)
			}
		})
	}
}

func TestEndedJobsAreToldWithHowTheyEnded(t *testing.T) {
	t.Parallel()
	c := practice(t, Options{Dialect: PBS, QueueFor: -1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := jobwatch.NewWatcher(runner{dial(t, c)}, jobwatch.Options{Limits: remote.PracticeLimits()})
	for name, end := range map[string]string{"well": "exit 0", "badly": "exit 3"} {
		id, err := w.Submit(ctx, jobwatch.Submission{Tag: name, Content: []byte("#!/bin/sh\n" + end + "\n"), Base: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Await(ctx, id.ID); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := w.Recent(ctx)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	for _, job := range jobs {
		if want := map[string]api.JobState{"well": api.JobFinished, "badly": api.JobFailed}[job.Name]; job.State != want {
			t.Errorf("%s is %s", job.Name, job.State)
		}
	}
}
