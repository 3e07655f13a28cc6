package agent

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// answerHint says by which answers in `with` a person changes what some words are about.
type answerHint struct {
	words   *regexp.Regexp
	answers []string
}

func answerHints(rows ...[]string) []answerHint {
	list := make([]answerHint, len(rows))
	for i, row := range rows {
		list[i] = answerHint{regexp.MustCompile(row[0]), row[1:]}
	}
	return list
}

var (
	// refusedAnswers go by what is said of a job that the scheduler refused.
	refusedAnswers = answerHints(
		[]string{`--mem\b|(?i)memory`, "memory"},
		[]string{`--cpus-per-task|(?i)\bCPUs?\b`, "cpus"},
		[]string{`--gres|(?i)\bGPUs?\b`, "gpus", "gpu", "gpu_type"},
		[]string{`--time\b|(?i)walltime`, "hours"},
		[]string{`--account|-A\b|-P\b`, "account", "project"},
		[]string{`--partition|-q\b`, "partition", "queue"},
		[]string{`--qos`, "qos"},
	)
	// failedAnswers go by the end of the log of a job that never served.
	failedAnswers = answerHints(
		[]string{`bin/activate\b|virtual environment`, "venv"},
		[]string{`CondaError|Environment(?:Name|Location)NotFound|conda environment|\bconda .*(?:activate|not installed)`, "conda"},
		[]string{`(?i)\bLmod\b|modulefile|module\(s\)|module: .*not found`, "modules"},
		[]string{`(?i)\bapptainer\b|\bsingularity\b`, "container"},
		[]string{`(?:Jupyter|TensorBoard) (?:is not installed )?here`, "venv", "conda", "modules", "container"},
	)
	// endedAnswers go by how such a job ended.
	endedAnswers = map[api.JobState]string{api.JobOOM: "memory", api.JobTimeout: "hours"}
)

// answersAbout are those of the known answers that a text is about.
func answersAbout(text string, hints []answerHint, known []string) []string {
	var about []string
	for _, h := range hints {
		if !h.words.MatchString(text) {
			continue
		}
		for _, name := range h.answers {
			if slices.Contains(known, name) && !slices.Contains(about, name) {
				about = append(about, name)
			}
		}
	}
	return about
}

// inWith names answers and where they are written.
func inWith(session string, answers []string) string {
	list := strings.Join(answers, ", ")
	if n := len(answers) - 1; n > 0 {
		list = strings.Join(answers[:n], ", ") + " or " + answers[n]
	}
	return fmt.Sprintf("%s in with = { … } of [session.%s]", list, session)
}

// answerNames are the questions that a builtin job of the session takes answers to; none
// where that cannot be found out.
func (a *Agent) answerNames(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher) []string {
	site, err := a.siteOf(ctx, cfg.Host, jobs)
	if err != nil {
		a.log.Debug("cannot find the site of a host", "host", cfg.Host, "err", err)
		return nil
	}
	job := configs.Job{App: cfg.Builtin(), Site: site}
	var names []string
	for _, q := range job.Questions() {
		names = append(names, q.Name)
	}
	return names
}

// submitFor submits a session's job. Where the scheduler refuses one that tunctl wrote,
// the hint names the answers that the person gave, not only the scheduler's options.
func (a *Agent) submitFor(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission) (api.Job, error) {
	job, err := jobs.Submit(ctx, sub)
	e, ok := asAPI(err)
	if !ok || e.Code != api.CodeSubmit || cfg.Builtin() == "" {
		return job, err
	}
	about := answersAbout(e.Message+"\n"+e.Hint, refusedAnswers, a.answerNames(ctx, cfg, jobs))
	if len(about) == 0 {
		return job, err
	}
	told := *e
	told.Hint += "; change " + inWith(cfg.Name, about)
	return job, &told
}

// fixFor says what to change after a job of the session ended before it served.
func (a *Agent) fixFor(ctx context.Context, cfg configs.Session, job api.Job, excerpt string) string {
	if cfg.Builtin() == "" {
		return "fix the job script"
	}
	known := a.answerNames(ctx, cfg, a.watcher(cfg.Host))
	about := answersAbout(excerpt, failedAnswers, known)
	if name := endedAnswers[job.State]; slices.Contains(known, name) {
		about = []string{name}
	}
	if len(about) == 0 {
		return fmt.Sprintf("check the answers in with = { … } of [session.%s]", cfg.Name)
	}
	return "change " + inWith(cfg.Name, about)
}
