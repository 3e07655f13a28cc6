package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
)

// scout looks elsewhere for what a job serves that runs and has no log to read: in
// the files in which Jupyter servers say how to reach them, and where there are none
// in what the scheduler still has of the job's output.
func (l *life) scout(ctx context.Context, job api.Job) {
	if l.scouting || job.State != api.JobRunning {
		return
	}
	l.scouting = true
	doing := fmt.Sprintf("no readable log for job %s; looking for runtime files of Jupyter and for its output", job.ID)
	if job.Hint == jobwatch.Spooled {
		doing = fmt.Sprintf("PBS keeps the output of job %s on the node until it ends; looking for runtime files of Jupyter", job.ID)
	}
	l.session.change(func(f *facts) { f.doing = doing })
	l.work.Go(func() { l.lookAround(ctx, job) })
	l.work.Go(func() { l.listenIn(ctx, job) })
}

// lookAround looks for Jupyter's files until one tells of a server that answers, and
// again when it no longer does.
func (l *life) lookAround(ctx context.Context, job api.Job) {
	limits := l.session.agent.limits.Jobs
	files := l.jobs.RuntimeFiles(runner{l.host}, job)
	began, pause := time.Now(), limits.LogFirst
	for {
		if !l.session.answers() {
			if f, ok := files.Find(ctx); ok {
				offer(l.scouted, f)
			} else if why := files.Err(); why != nil {
				l.session.change(func(f *facts) { f.doing = why.Error() })
			}
		}
		if time.Since(began) > limits.LogFirstFor {
			pause = limits.LogStarting
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// listenIn listens to the job itself, as long as nothing else has told where it
// serves. All jobs of a host take turns at it.
func (l *life) listenIn(ctx context.Context, job api.Job) {
	for sleep(ctx, l.session.agent.limits.Jobs.LogStarting) == nil {
		if l.session.answers() {
			continue
		}
		out, err := l.jobs.StepOutput(ctx, job.Ref())
		if errors.Is(err, jobwatch.ErrNoSteps) {
			return
		}
		if err != nil {
			l.session.agent.log.Debug("cannot read the output of the job", "session", l.session.name, "err", err)
			continue
		}
		detector := detect.New(l.session.app(), l.session.agent.customApps()...)
		_, _ = detector.Write(out)
		detector.Flush()
		if f := detector.Finding(); f.Found && !l.session.answers() {
			offer(l.overheard, f)
		}
	}
}

// answers reports whether what the job serves has answered.
func (s *session) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.answers
}
