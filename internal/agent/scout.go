package agent

import (
	"context"
	"strings"
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
			if f, ok := runtimeFinding(ctx, runner{l.host}, jobwatch.Finding{}, job); ok {
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

// runtimeFinding corrects what a log says by the newest runtime file since the job's
// start that can be its own. A server bound to a name is on that node; another may be
// anywhere, and is believed once it answers there to the token in the file.
func runtimeFinding(ctx context.Context, r jobwatch.Runner, f jobwatch.Finding, job api.Job) (jobwatch.Finding, bool) {
	files, err := jobwatch.FindRuntimeFiles(ctx, r, job.Start)
	if err != nil {
		return f, false
	}
	for _, file := range files {
		data, err := jobwatch.ReadFile(ctx, r, file)
		if err != nil {
			continue
		}
		ep, err := jobwatch.ParseRuntimeFile(data)
		if err == nil && (ep.NeedsNode || sameNode(ep.Host, job.Node)) {
			return f.WithRuntime(ep), true
		}
	}
	return f, false
}

// sameNode reports whether two names are one node's, short or with its domain.
func sameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}
