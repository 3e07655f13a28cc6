// Package submit makes one submission of a session's settings and the user's choices, and says
// whether the user permits it. Choices are checked in one place and written in one place: as
// answers of a builtin job, or as options of the submit command. What the site would refuse is
// refused here.
//
// It keeps nothing: package state has the record of what was submitted, and package agent
// decides when something is.
package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// Source is what a session's job is made from.
type Source struct {
	Session configs.Session
	Section string // of the config; for a second session, that of the first
	Host    configs.Host
	Sites   configs.Sites
	// Scheduler is the host's; "" if it is not known yet.
	Scheduler string
	Folder    string              // of the config file: relative paths of scripts on this computer start there
	Found     map[string][]string // the values for choices that the host is known to have, and its scheduler
	Log       *slog.Logger

	made *jobwatch.Drafts // see drafts
}

// drafts are shared by all that one request asks about the job, so that its script is read once.
func (s *Source) drafts(jobs *jobwatch.Watcher) *jobwatch.Drafts {
	if s.made == nil {
		s.made = jobs.Drafts()
	}
	return s.made
}

// second reports whether the session is a second one of its section.
func (s *Source) second() bool { return s.Section != s.Session.Name }

// JobName is the name that the host's scheduler gives to a job of that name.
func (s *Source) JobName(name string) string {
	return (&configs.Site{Scheduler: s.Scheduler}).JobName(name)
}

// siteOn is the host's site, the named one, else the generic one of its scheduler; and that.
func (s *Source) siteOn(ctx context.Context, jobs *jobwatch.Watcher) (site configs.Site, scheduler string, err error) {
	if scheduler, err = jobs.Scheduler(ctx); err == nil {
		site, err = s.Sites.ForHost(s.Host, scheduler)
	}
	return site, scheduler, err
}

// questions are what may be chosen for a run of the session, and its host's site. They are
// not known before the first connection to a host of which the config tells neither site nor
// scheduler. Nothing can be chosen for a session that submits no job.
func (s *Source) questions() (questions []configs.Question, site configs.Site, known bool) {
	switch {
	case s.Session.Submit == "":
		return nil, site, true
	case s.Session.Builtin() == "":
		questions = configs.ScriptQuestions()
		if words := jobwatch.ChoiceNames(s.Scheduler); s.Scheduler != "" {
			questions = slices.DeleteFunc(questions, func(q configs.Question) bool { return !slices.Contains(words, q.Name) })
		}
		return questions, site, true
	case s.Host.Site == "" && s.Scheduler == "":
		return nil, site, false
	}
	site, err := s.Sites.ForHost(s.Host, s.Scheduler)
	if err != nil {
		return nil, site, false
	}
	return s.Session.RunQuestions(site), site, true
}

// Options are what may be chosen for a run of the session, as far as that is known.
func (s *Source) Options() []api.Option {
	list := []api.Option{}
	questions, site, _ := s.questions()
	scheduler := cmp.Or(s.Scheduler, strings.Join(s.Found["scheduler"], ""))
	names := jobwatch.ListedChoices(scheduler)
	for _, q := range questions {
		if s.Session.Builtin() == "" && scheduler != "" && !slices.Contains(names, q.Name) {
			continue
		}
		o := api.Option{Name: q.Name, Ask: q.Ask, Value: q.Default, Choices: site.Listed(q)}
		for _, value := range s.Found[q.Name] {
			if _, err := q.Check(value); err == nil && len(o.Choices) == 0 {
				o.Known = append(o.Known, value)
			}
		}
		if text, set := s.Session.With[q.Name]; set {
			o.Value = text
		}
		list = append(list, o)
	}
	return list
}

// ReadScript adds to options what the session's own script has. Its host must be connected.
func (s *Source) ReadScript(ctx context.Context, jobs *jobwatch.Watcher, options []api.Option) error {
	if s.Session.Submit == "" || s.Session.Builtin() != "" {
		return nil
	}
	order, err := s.Unchecked(nil).ownScript(ctx, jobs, s.order(""))
	if err != nil {
		return err
	}
	has, err := s.drafts(jobs).ChosenIn(ctx, order)
	for i, o := range options {
		options[i].Script = api.Sanitize(has[o.Name])
	}
	return err
}

// MoreMemory are the choices of a job that ran out of memory, with twice as much of it; nil if that
// cannot be chosen, or if it is not known how much the job had.
func (s *Source) MoreMemory(job api.Job, with api.Choices) api.Choices {
	questions, _, _ := s.questions()
	if job.State != api.JobOOM || job.Memory == 0 || !slices.ContainsFunc(questions, func(q configs.Question) bool { return q.Name == memoryChoice }) {
		return nil
	}
	const gigabyte = 1 << 30
	more := api.Choices{}
	maps.Copy(more, with)
	more[memoryChoice] = fmt.Sprintf("%dG", (2*job.Memory+gigabyte-1)/gigabyte)
	return more
}

const memoryChoice = "memory"

// Values are what a job has that was submitted with these choices: them, and what the config or
// the site has for the rest.
func (s *Source) Values(with api.Choices) api.Choices {
	values := api.Choices{}
	questions, _, _ := s.questions()
	for _, q := range questions {
		values[q.Name] = q.Default
	}
	maps.Copy(values, s.Session.With)
	maps.Copy(values, with)
	return values
}

// explain names the user's answers in the hint of a refusal: of a job that tunctl wrote, they do
// not know the scheduler's options.
func (s *Source) explain(ctx context.Context, jobs *jobwatch.Watcher, err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeSubmit || s.Session.Builtin() == "" {
		return err
	}
	about := s.answersAbout(ctx, jobs, e.Message+"\n"+e.Hint, refusedAnswers)
	if len(about) == 0 {
		return api.ReplaceHint(err, "%s", withoutScript(e.Hint))
	}
	if strings.Contains(e.Hint, "takes no batch jobs") {
		site, _, _ := s.siteOn(ctx, jobs)
		others := site.OtherQueues(func(q configs.Queue) bool { return !q.NoBatch && !strings.Contains(e.Message, q.Name) })
		if others != "" {
			return api.ReplaceHint(err, "this partition takes no batch jobs; %s in with = { … } of [session.%s]", others, s.Section)
		}
	}
	return api.ReplaceHint(err, "%s; change %s", withoutScript(e.Hint), inWith(s.Section, about))
}

// withoutScript is a hint for a job that tunctl writes: its user has no script to change, and types no
// options of the scheduler.
func withoutScript(hint string) string {
	const where = " in args of the session or in the script"
	return strings.NewReplacer(","+where, "", where, "", "--partition", "partition", "--account", "account", "--qos", "qos", "--time", "hours", "--mem,", "memory,").Replace(hint)
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
	if session == "" { // `tunctl run HOST`
		return list + " by --with"
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
