package submit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// explain names the user's answers in the hint of a refusal: of a job that tunctl wrote, they do
// not know the scheduler's options.
func (s *Source) explain(ctx context.Context, jobs *jobwatch.Watcher, err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeSubmit || s.Session.Builtin() == "" {
		return err
	}
	about := s.answersAbout(ctx, jobs, e.Message+"\n"+e.Hint, refusedAnswers)
	if len(about) == 0 {
		return err
	}
	hinted := *e
	if strings.Contains(e.Hint, "takes no batch jobs") {
		site, _, _ := s.siteOn(ctx, jobs)
		others := site.OtherQueues(func(q configs.Queue) bool { return !q.NoBatch && !strings.Contains(e.Message, q.Name) })
		if others != "" {
			hinted.Hint = "this partition takes no batch jobs; " + others + " in with = { … } of [session." + s.Section + "]"
			return &hinted
		}
	}
	hinted.Hint = withoutScript(e.Hint) + "; change " + inWith(s.Section, about)
	return &hinted
}

// withoutScript is a hint for a job that tunctl writes: its user has no script to change.
func withoutScript(hint string) string {
	const where = " in args of the session or in the script"
	return strings.NewReplacer(","+where, "", where, "").Replace(hint)
}

// Fix says what to change after a job ended before it served: how it ended, in words, and the end
// of its log.
func (s *Source) Fix(ctx context.Context, jobs *jobwatch.Watcher, ended, excerpt string) string {
	if s.Session.Builtin() == "" {
		return "fix the job script"
	}
	if failedPrepare.MatchString(excerpt) {
		return fmt.Sprintf("fix prepare in [session.%s]", s.Session.Name)
	}
	about := s.answersAbout(ctx, jobs, ended, refusedAnswers)
	if len(about) == 0 {
		about = s.answersAbout(ctx, jobs, excerpt, failedAnswers)
	}
	if len(about) == 0 {
		return fmt.Sprintf("check the answers in with = { … } of [session.%s]", s.Section)
	}
	return "change " + inWith(s.Section, about)
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

// DiskIsFull reports whether the end of a job's log says that a disk or a quota is full.
func DiskIsFull(excerpt string) bool { return fullDisk.MatchString(excerpt) }

var fullDisk = regexp.MustCompile(`(?i)disk quota exceeded|no space left on device|EDQUOT|ENOSPC`)

// answersAbout are the answers that a text is about, of those that a builtin job of the session
// accepts; none if that is not known.
func (s *Source) answersAbout(ctx context.Context, jobs *jobwatch.Watcher, text string, table [][]string) []string {
	site, _, err := s.siteOn(ctx, jobs)
	if err != nil {
		s.Log.Debug("cannot find the site of a host", "host", s.Session.Host, "err", err)
		return nil
	}
	questions := (&configs.Job{App: s.Session.Builtin(), Site: site}).Questions()
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

// RefuseUnreached makes a refusal of a scheduler that a submission did not reach: who waits for the
// command can try again later.
func RefuseUnreached(err error) error {
	if e, ok := errors.AsType[*jobwatch.UnreachedError](err); ok {
		return api.Errorf(api.CodeSubmit, "the scheduler did not accept the job: %s", e.Words).
			WithHint("the scheduler is down or cannot be reached: try again later")
	}
	return err
}
