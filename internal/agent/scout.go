package agent

import (
	"context"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// scout looks for the files in which Jupyter servers say how to reach them, for a job
// that runs and has no log to read.
func (l *life) scout(ctx context.Context, job api.Job) {
	if l.scouting || job.State != api.JobRunning {
		return
	}
	l.scouting = true
	l.session.change(func(f *facts) { f.doing = "it has no log that can be read; looking for Jupyter's own files" })
	limits := l.session.agent.limits.Jobs
	l.work.Go(func() {
		began, pause := time.Now(), limits.LogFirst
		for {
			if f, ok := runtimeFinding(ctx, runner{l.host}, jobwatch.Finding{}, job.Node, job.Start); ok {
				offer(l.scouted, f)
				pause = limits.LogSettled
			} else if time.Since(began) > limits.LogFirstFor {
				pause = limits.LogStarting
			}
			if sleep(ctx, pause) != nil {
				return
			}
		}
	})
}
