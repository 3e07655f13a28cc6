package configs

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

//go:embed jobs/*.tmpl
var jobFiles embed.FS

var jobTemplates = template.Must(template.ParseFS(jobFiles, "jobs/*.tmpl"))

// Job is a builtin job: what it runs, where, and the answers to the site's questions.
type Job struct {
	App       string // of BuiltinJobs
	Name      string // what the scheduler and the log are to call it
	Site      Site
	Scheduler string    // of Schedulers, where the site leaves it open
	Reach     api.Reach // where the session says it; else the site's
	Host      Host      // what the config says about the host, if anything
	Answers   map[string]string
	Log       string // where the session says its log is, if it does
	Prepare   string // shell lines, or the path of a script, before the server starts
	Command   string // of CommandJob; {port}, {host} and {base} are replaced
}

// script has the values of the templates.
type script struct {
	Recipe
	App, What, Site     string
	Begin               string // the first commands
	Variables           []string
	Dial                []string // the names by which the node is dialled
	Loopback            bool
	Base                string
	Announces           string // the app, in the line of the log that announces the server
	Prepare, PrepareEnd string // lines, and the word that ends them
	PrepareFile         string // or the path of a script, as a word of the shell
	Command             string // as a word of the shell
	UsesBase            bool   // the command puts the page below the base
}

// Questions are the questions of the job.
func (j *Job) Questions() []Question { return j.Site.allQuestions(j.App) }

// Script is the job's script.
func (j *Job) Script() ([]byte, error) {
	kind := jobKindOf(j.App)
	if kind.name == "" {
		return nil, configError(unknownBuiltin(j.App), "no job %q comes with tunctl", builtinPrefix+j.App)
	}
	if !validName.MatchString(j.Name) {
		return nil, configError("use letters, digits, '.', '_' and '-'", "%q is not a valid job name", j.Name)
	}
	answers, err := j.answers()
	if err != nil {
		return nil, err
	}
	if j.App == CommandJob && j.Command == "" {
		return nil, configError(fmt.Sprintf("set it in the session: command = %q", commandExample), "%s%s has no command to run", builtinPrefix, CommandJob)
	}
	s := script{
		Recipe: j.Site.Job, App: j.App, What: kind.what, Site: j.Site.Name, Loopback: j.loopback(), Base: posixsh.Quote("/" + j.Name + "/"),
		Announces: kind.app, Command: posixsh.Quote(j.Command), UsesBase: strings.Contains(j.Command, "{base}"),
	}
	s.LoginShell = s.LoginShell || answers["modules"] != ""
	s.prepare(j.Prepare)
	s.Private = j.private()
	s.Dial = j.Site.dialNames("${node%%.*}", func() []string { return nil })
	d := dialectOf(j.scheduler())
	s.Begin = strings.ReplaceAll(d.begin, "{logs}", cmp.Or(j.logFolder(), "."))
	if s.LoginShell {
		s.Begin = d.profile + s.Begin
	}
	if s.Directives, err = j.directives(answers); err != nil {
		return nil, err
	}
	s.Variables = j.variables(answers)
	for _, q := range softwareQuestions() { // the script and the sites' commands use their answers
		if _, asked := answers[q.Name]; !asked {
			s.Variables = append(s.Variables, q.Name+"=")
		}
	}
	var b strings.Builder
	if err := jobTemplates.ExecuteTemplate(&b, j.App+".sh.tmpl", s); err != nil {
		return nil, err
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n"), nil
}

// variables set the answers as variables of the shell.
func (j *Job) variables(answers map[string]string) []string {
	return each(j.Questions(), func(q Question) string {
		if q.Kind == AskPath {
			return q.Name + "=" + posixsh.QuotePath(answers[q.Name]) // ~/ is the home folder
		}
		return q.Name + "=" + posixsh.Quote(answers[q.Name])
	})
}

// private is the folder for the job's private files, in the shell's words.
func (j *Job) private() string {
	if j.Host.Private != "" || j.Site.Job.Private == "" {
		return j.Site.PrivateFolder(j.Host)
	}
	return j.Site.Job.Private
}

// logFolder is the folder for the job's log, in the shell's words; "" is the one that the job is
// submitted from: the session says where its log is, or the script redirects it to a folder
// that only the script knows.
func (j *Job) logFolder() string {
	folder := j.private()
	redirects := strings.Contains(dialectOf(j.scheduler()).begin, "{logs}")
	if j.Log != "" || redirects && strings.Contains(strings.TrimPrefix(folder, "$HOME"), "$") {
		return ""
	}
	return folder + "/logs"
}

// LogFolder is the folder for the job's log, as a word of sh; "" is the one that the job is
// submitted from.
func (j *Job) LogFolder() (string, error) {
	folder := j.logFolder()
	answers, err := j.answers()
	if folder == "" || err != nil {
		return "", err
	}
	if j.private() != j.Site.Job.Private {
		return `"` + folder + `"`, nil
	}
	return `"$(` + strings.Join(j.variables(answers), "; ") + `; printf %s "` + folder + `")"`, nil
}

// prepare sets what runs before the server. One word that begins with / or ~/ is the path of
// a script; anything else is lines.
func (s *script) prepare(text string) {
	if (strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~/")) && !strings.ContainsAny(text, " \t\n;&|") {
		s.PrepareFile = posixsh.QuotePath(text)
		return
	}
	s.Prepare, s.PrepareEnd = text, "END"
	for slices.Contains(strings.Split(text, "\n"), s.PrepareEnd) {
		s.PrepareEnd += "_"
	}
}

// Workdir is the folder to submit from, if the site has one.
func (j *Job) Workdir() (string, error) {
	answers, err := j.answers()
	if err != nil {
		return "", err
	}
	return fill(j.Site.Workdir, answers)
}

// Container reports whether the job's server runs in a container, which programs inside the job
// do not, and the command that enters it; "": that is not known.
func (j *Job) Container() (enter string, ok bool) {
	if j.App == ShellApp {
		return "", false // it has no server
	}
	if j.Site.ownContainer() {
		return j.Site.Job.Enter, true
	}
	answers, _ := j.check()
	image := answers["container"]
	return "apptainer shell " + posixsh.QuotePath(image), image != ""
}

// answers are the given answers, checked, and the defaults of the others.
func (j *Job) answers() (map[string]string, error) {
	all, problems := j.check()
	if len(problems) > 0 {
		return nil, problems[0].err
	}
	return all, nil
}

// answerProblem is a wrong or missing answer.
type answerProblem struct {
	answer string
	err    error
}

// check returns all answers and their problems.
func (j *Job) check() (map[string]string, []answerProblem) {
	all, problems := map[string]string{}, []answerProblem(nil)
	gpus, asked := questionNamed(j.Questions(), gpusQuestion)
	number, given := j.Answers[gpusQuestion]
	if !given {
		number = gpus.Default
	}
	for _, q := range j.Questions() {
		text, given := j.Answers[q.Name]
		if !given {
			text = q.Default
			if asked && number != "0" && number != "" && q.Name != cpusQuestion { // see setCPUs
				text = cmp.Or(q.GPUDefault, text)
			}
		}
		text, err := q.Check(text)
		if err != nil {
			problems = append(problems, answerProblem{q.Name, configError(fmt.Sprintf("set it in the session: with = { %s = %s }", q.Name, q.example()), "%v", err)})
		}
		all[q.Name] = text
	}
	for _, name := range slices.Sorted(maps.Keys(j.Answers)) {
		if _, known := all[name]; !known {
			names := questionNames(j.Questions())
			hint := cmp.Or(didYouMean(name, names), "available: "+strings.Join(names, ", "))
			problems = append(problems, answerProblem{name, configError(hint, "site %q has no question %q", j.Site.Name, name)})
		}
	}
	if len(problems) == 0 {
		if _, given := j.Answers[cpusQuestion]; !given {
			j.Site.setCPUs(all)
		}
		problems = j.Site.checkQueue(all)
	}
	return all, problems
}

// Answer adds an answer, or returns why it does not fit the others.
func (j *Job) Answer(q Question, text string) error {
	text, err := q.Check(text)
	if err != nil {
		return err
	}
	all := map[string]string{}
	maps.Copy(all, j.Answers)
	all[q.Name] = text
	if problems := j.Site.checkQueue(all); len(problems) > 0 {
		return problems[0].err
	}
	j.Answers = all
	return nil
}

// directives are the lines for the scheduler: for the name, the log, and those of the
// site.
func (j *Job) directives(answers map[string]string) ([]string, error) {
	safe := map[string]string{"name": j.Name}
	for _, q := range j.Questions() {
		if q.directive() {
			safe[q.Name] = answers[q.Name]
		}
	}
	d := dialectOf(j.scheduler())
	if d.prefix == "" {
		return nil, nil
	}
	words := each(d.header, func(w string) string { return strings.ReplaceAll(w, "{name}", d.jobName(j.Name)) })
	for _, text := range j.Site.Job.Directives {
		line, err := fill(text, safe)
		if err != nil {
			return nil, configError("", "site %q: %v", j.Site.Name, err)
		}
		if line != "" {
			words = append(words, line)
		}
	}
	return each(words, func(w string) string { return d.prefix + w }), nil
}

// JobName is the name of a job for the site's scheduler.
func (s *Site) JobName(name string) string { return dialectOf(s.Scheduler).jobName(name) }

func (j *Job) scheduler() string { return cmp.Or(j.Site.Scheduler, j.Scheduler) }

// loopback reports whether the server listens on the loopback of its node only: it is
// reached from there, or everyone who can reach it can use it.
func (j *Job) loopback() bool {
	if jobKindOf(j.App).open {
		return true
	}
	reach := j.Reach
	if (reach == "" || reach == api.ReachAuto) && len(j.Site.Reach) > 0 {
		reach = j.Site.Reach[0]
	}
	return reach == api.ReachNode || j.scheduler() == noScheduler
}

func configError(hint, format string, args ...any) error {
	return api.Errorf(api.CodeConfig, format, args...).WithHint("%s", hint)
}
