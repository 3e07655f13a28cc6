package lab

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

// runner runs jobwatch's commands over SSH.
type runner struct{ client *ssh.Client }

func (r runner) Run(_ context.Context, command string, stdin []byte) (remote.Result, error) {
	s, err := r.client.NewSession()
	if err != nil {
		return remote.Result{}, err
	}
	defer func() { _ = s.Close() }()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(stdin), &out, &errs
	res := remote.Result{}
	if err := s.Run(command); err != nil {
		exit, ok := errors.AsType[*ssh.ExitError](err)
		if !ok {
			return res, err
		}
		res.Exit = exit.ExitStatus()
	}
	res.Stdout, res.Stderr = out.Bytes(), errs.Bytes()
	return res, nil
}

func TestJobwatchWorksWithThePracticeCluster(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{Slurm, PBS} {
		t.Run(dialect, func(t *testing.T) {
			c := practice(t, Options{Dialect: dialect, QueueFor: 100 * time.Millisecond})
			r := runner{dial(t, c)}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			w := jobwatch.NewWatcher(r, jobwatch.Options{Limits: remote.PracticeLimits()})
			if name, err := w.Scheduler(ctx); err != nil || name != dialect {
				t.Fatalf("Scheduler: %q, %v", name, err)
			}
			if name, err := w.Login(ctx); err != nil || name != user {
				t.Fatalf("User: %q, %v", name, err)
			}
			job, err := w.Submit(ctx, jobwatch.Submission{
				Tag: "t1", Content: []byte(JobScript(dialect)), Base: "jupyter.sh", Session: "jupyter",
			})
			if err != nil {
				t.Fatal(err)
			}
			again, err := w.Submit(ctx, jobwatch.Submission{
				Tag: "t1", Content: []byte(JobScript(dialect)), Base: "jupyter.sh", Session: "jupyter",
			})
			if err != nil || again.ID != job.ID || len(c.Jobs()) != 1 {
				t.Errorf("submitting again: %v, %v, %d jobs", again, err, len(c.Jobs()))
			}

			var wg sync.WaitGroup
			defer wg.Wait()
			serving, stop := context.WithCancel(ctx)
			defer stop()
			wg.Go(func() { _ = w.Serve(serving) })
			watch := w.Watch(job.ID)
			defer watch.Close()
			for r := range watch.C() {
				if job = r.Job; job.State == api.JobRunning && job.Log != "" {
					break
				}
				if job.State.Ended() || ctx.Err() != nil {
					t.Fatalf("the job is %+v", job)
				}
			}
			if !strings.HasPrefix(job.Node, "cn0") || job.Name != "jupyterlab" || job.End.IsZero() {
				t.Errorf("the running job is %+v", job)
			}

			detector := detect.New("")
			found := make(chan struct{})
			f := joblog.NewFollower(r, joblog.FollowOptions{Paths: []string{job.Log}, Limits: remote.PracticeLimits()})
			following, unfollow := context.WithCancel(ctx)
			defer unfollow()
			wg.Go(func() {
				_ = f.Serve(following, func(chunk joblog.Chunk) {
					_, _ = detector.Write(chunk.Data)
					if detector.Finding().Found && !detector.Finding().Token.IsZero() {
						unfollow()
						close(found)
					}
				})
			})
			select {
			case <-found:
			case <-ctx.Done():
				t.Fatalf("nothing found in %q", job.Log)
			}
			finding := detector.Finding()
			if finding.Host != job.Node || finding.Path != "/lab" || finding.App != "jupyter" || finding.NeedsNode {
				t.Errorf("found %+v", finding)
			}

			if err := w.Cancel(ctx, job.ID); err != nil {
				t.Fatal(err)
			}
			for r := range watch.C() {
				if job = r.Job; job.State.Ended() {
					break
				}
			}
			if job.State != api.JobCancelled {
				t.Errorf("after Cancel the job is %+v", job)
			}
		})
	}
}
