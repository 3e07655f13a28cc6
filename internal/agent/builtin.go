package agent

import (
	"context"

	"tunctl/configs"
	"tunctl/jobwatch"
)

// builtin is the submission of a job that comes with tunctl, written for the host's
// site with the session's answers.
func (a *Agent) builtin(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission) (jobwatch.Submission, error) {
	site, err := a.siteOf(ctx, cfg.Host, jobs)
	if err != nil {
		return sub, err
	}
	scheduler, err := jobs.Scheduler(ctx)
	if err != nil {
		return sub, err
	}
	job := cfg.BuiltinJob(site, scheduler)
	if sub.Content, err = job.Script(); err != nil {
		return sub, err
	}
	sub.Base = job.Name + ".sh"
	if sub.Workdir == "" {
		sub.Workdir, err = job.Workdir()
	}
	return sub, err
}
