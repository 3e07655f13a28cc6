package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// localPrefix marks a script on this computer, which is uploaded first.
const localPrefix = "local:"

// submission is what to submit for a session with a tag and a person's choices. A job that
// the site would refuse is refused here.
func (a *Agent) submission(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, tag string, with api.Choices) (jobwatch.Submission, error) {
	sub, err := a.prepareSubmission(ctx, cfg, jobs, tag, with)
	if err == nil && a.section(cfg.Name) != cfg.Name && cfg.Log == "" {
		err = checkOwnLog(ctx, cfg, jobs, sub)
	}
	if err == nil {
		err = a.checkRequired(ctx, cfg, jobs, sub)
	}
	return sub, err
}

// checkOwnLog refuses a second session's job that would write to the first one's log: each
// would find the other's page there.
func checkOwnLog(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission) error {
	log, hint, err := jobs.SharedLog(ctx, sub)
	if err != nil || log == "" {
		return err
	}
	return api.Errorf(api.CodeUsage, "nothing was submitted: the job of %s would write to the same log as the first one: %s",
		cfg.Name, api.Sanitize(log)).WithHint("%s", hint)
}

// checkRequired refuses a job without an option that the site requires.
func (a *Agent) checkRequired(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission) error {
	site, ok := a.configuredSite(cfg.Host)
	if !ok {
		return nil
	}
	missing, err := jobs.MissingOptions(ctx, sub, site.Require)
	if err != nil || len(missing) == 0 {
		return err
	}
	args := make([]string, 0, len(missing))
	for _, text := range missing {
		for word := range strings.FieldsSeq(text) {
			args = append(args, strconv.Quote(word))
		}
	}
	hint := fmt.Sprintf("set args = [%s] in [session.%s], with your own values", strings.Join(args, ", "), a.section(cfg.Name))
	if cfg.Name == "" { // `tunctl submit`
		hint = "give it as an argument of the command"
	}
	about := a.answersAbout(ctx, cfg, jobs, strings.Join(missing, "\n"), refusedAnswers)
	switch {
	case cfg.Builtin() == "":
		hint = fmt.Sprintf("add %s to %s, or %s", strings.Join(missing, " and "), cfg.Submit, hint)
	case len(about) > 0:
		hint = fmt.Sprintf("set %s; or %s", inWith(a.section(cfg.Name), about), hint)
	}
	return api.Errorf(api.CodeSubmit, "nothing was submitted: site %s refuses jobs without %s",
		site.Name, strings.Join(missing, " and ")).WithHint("%s", hint)
}

func (a *Agent) prepareSubmission(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, tag string, with api.Choices) (jobwatch.Submission, error) {
	sub := jobwatch.Submission{Tag: tag, Session: cfg.Name, Args: cfg.Args, Workdir: cfg.Workdir}
	if cfg.Builtin() != "" {
		return a.builtinSubmission(ctx, cfg, jobs, sub, with)
	}
	path, isLocal := strings.CutPrefix(cfg.Submit, localPrefix)
	if !isLocal {
		sub.Script = cfg.Submit
		return a.withChoices(ctx, cfg, jobs, sub, with)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(a.opt.Paths.Config), path) // the working directory of the agent means nothing
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return sub, api.Errorf(api.CodeConfig, "the script of [session.%s] cannot be read: %w", a.section(cfg.Name), err).
			WithHint("a relative path after local: starts at the directory of the config file")
	}
	sub.Content, sub.Base = content, filepath.Base(path)
	return a.withChoices(ctx, cfg, jobs, sub, with)
}

// builtinSubmission is a job that comes with tunctl, written for the host's site with
// the session's answers, and a person's choices in place of some.
func (a *Agent) builtinSubmission(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission, with api.Choices) (jobwatch.Submission, error) {
	site, err := a.siteOf(ctx, cfg.Host, jobs)
	if err != nil {
		return sub, err
	}
	if with, err = configs.CheckChoices(cfg.RunQuestions(site), with); err != nil {
		return sub, err
	}
	scheduler, err := jobs.Scheduler(ctx)
	if err != nil {
		return sub, err
	}
	job := withAnswers(cfg, with).BuiltinJob(a.cfg().Host(cfg.Host), site, scheduler)
	if sub.Content, err = job.Script(); err != nil {
		return sub, err
	}
	if err := a.checkOverridden(ctx, cfg, jobs, sub, with, cfg.BuiltinJob(a.cfg().Host(cfg.Host), site, scheduler)); err != nil {
		return sub, err
	}
	sub.Base = job.Name + ".sh"
	if a.section(cfg.Name) != cfg.Name && len(sub.Args) > 0 { // which may have the name of the first session's job
		base := sub.Base
		if sub, err = jobs.Named(ctx, sub, a.acceptedJobName(cfg.Host, job.Name)); err != nil {
			return sub, err
		}
		sub.Base = base
	}
	if sub.Workdir == "" {
		sub.Workdir, err = job.Workdir()
	}
	return sub, err
}

// checkOverridden refuses choices that the session's args would override; unchanged is its job
// without them.
func (a *Agent) checkOverridden(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission, with api.Choices, unchanged *configs.Job) error {
	if len(with) == 0 || len(sub.Args) == 0 {
		return nil
	}
	script, err := unchanged.Script()
	if err != nil {
		script = nil // the choices are what makes it valid: all of its options count
	}
	options, err := jobs.OverriddenOptions(ctx, sub, script)
	if err != nil || len(options) == 0 {
		return err
	}
	return api.Errorf(api.CodeUsage, "nothing was submitted: args of [session.%s] has %s, which would override %s",
		a.section(cfg.Name), strings.Join(options, " and "), with).
		WithHint("remove it from args, and set it in with = { … }")
}

// submitFor submits a session's job. If the scheduler refuses a job that tunctl wrote,
// the hint names the person's answers, not only the scheduler's options.
func (a *Agent) submitFor(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission) (api.Job, error) {
	job, err := jobs.Submit(ctx, sub)
	return job, a.aboutAnswers(ctx, cfg, jobs, err)
}

// aboutAnswers names the person's answers in the hint of a refusal.
func (a *Agent) aboutAnswers(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, err error) error {
	e, ok := asAPI(err)
	if !ok || e.Code != api.CodeSubmit || cfg.Builtin() == "" {
		return err
	}
	about := a.answersAbout(ctx, cfg, jobs, e.Message+"\n"+e.Hint, refusedAnswers)
	if len(about) == 0 {
		return err
	}
	hinted := *e
	hinted.Hint = withoutScript(e.Hint) + "; change " + inWith(a.section(cfg.Name), about)
	return &hinted
}

// withoutScript is a hint for a job that tunctl writes: its person has no script to change.
func withoutScript(hint string) string {
	const where = " in args of the session or in the script"
	return strings.NewReplacer(","+where, "", where, "").Replace(hint)
}

// fixFor says what to change after a job ended before it served.
func (a *Agent) fixFor(ctx context.Context, cfg configs.Session, job api.Job, excerpt string) string {
	if cfg.Builtin() == "" {
		return "fix the job script"
	}
	if failedPrepare.MatchString(excerpt) {
		return fmt.Sprintf("fix prepare in [session.%s]", cfg.Name)
	}
	jobs := a.jobWatcher(cfg.Host)
	about := a.answersAbout(ctx, cfg, jobs, facts.EndText(&job, time.Now()), refusedAnswers)
	if len(about) == 0 {
		about = a.answersAbout(ctx, cfg, jobs, excerpt, failedAnswers)
	}
	if len(about) == 0 {
		return fmt.Sprintf("check the answers in with = { … } of [session.%s]", a.section(cfg.Name))
	}
	return "change " + inWith(a.section(cfg.Name), about)
}

var (
	// refusedAnswers are what the words of a refusal, or of how a job ended, are about: a
	// pattern, and answers in `with`.
	refusedAnswers = [][]string{
		{`--mem\b|(?i)memory`, "memory"},
		{`--gres|(?i)\bGPUs?\b`, "gpus", "gpu", "gpu_type"},
		{`--time\b|(?i)walltime|time limit`, "hours"},
		{`--account|-A\b|-P\b`, "account", "project"},
		{`--partition|-q\b`, "partition", "queue"},
		{`--qos`, "qos"},
	}
	// failedAnswers are the same for the end of the log of a job that never served.
	failedAnswers = [][]string{
		{`bin/activate\b|virtual environment`, "venv"},
		{`(?:Jupyter|TensorBoard|code-server|RStudio|noVNC|websockify|vncpasswd|a VNC server .*|a desktop .*) (?:is not installed )?here`, "venv", "conda", "modules", "container"},
	}
	// failedPrepare matches what a builtin job prints about the session's prepare.
	failedPrepare = regexp.MustCompile(`tunctl: (?:prepare ended|there is no script .*: set prepare)`)
)

// answersAbout are the answers that a text is about, of those that a builtin job of the session
// accepts; none if that is not known.
func (a *Agent) answersAbout(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, text string, table [][]string) []string {
	site, err := a.siteOf(ctx, cfg.Host, jobs)
	if err != nil {
		a.log.Debug("cannot find the site of a host", "host", cfg.Host, "err", err)
		return nil
	}
	job := configs.Job{App: cfg.Builtin(), Site: site}
	questions := job.Questions()
	var about []string
	for _, row := range table {
		if !regexp.MustCompile(row[0]).MatchString(text) {
			continue
		}
		for _, name := range row[1:] {
			if slices.ContainsFunc(questions, func(q configs.Question) bool { return q.Name == name }) {
				about = append(about, name)
			}
		}
	}
	return about
}

// inWith names answers and where they are set.
func inWith(session string, answers []string) string {
	list := strings.Join(answers, ", ")
	if n := len(answers) - 1; n > 0 {
		list = strings.Join(answers[:n], ", ") + " or " + answers[n]
	}
	return fmt.Sprintf("%s in with = { … } of [session.%s]", list, session)
}
