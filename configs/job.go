package configs

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/internal/suggest"
)

//go:embed jobs/*.tmpl
var jobFiles embed.FS

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
	EndIdle   time.Duration
}

// script has the values of the templates.
type script struct {
	Recipe
	App, What, Site     string
	Software            string // the answers that tell where the program is
	Begin               string // the first commands
	Variables           []string
	Dial                []string // the names by which the node is dialled
	Loopback            bool
	Base                string
	Announces           string // the app, in the line of the log that announces the server
	Prepare, PrepareEnd string // lines, and the word that ends them
	PrepareFile         string // or the path of a script, as a word of the shell
	Command             string // as a word of the shell
	EndIdle             int    // seconds; 0: never
	UsesBase            bool   // the command puts the page below the base
}

// Questions are the questions of the job.
func (j *Job) Questions() []Question { return j.Site.allQuestions(j.App) }

// Question is the question of that name.
func (j *Job) Question(name string) (Question, bool) { return questionNamed(j.Questions(), name) }

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
		Recipe: j.Site.Job, App: j.App, What: kind.what, Software: kind.software, Site: j.Site.Name, Loopback: j.loopback(), Base: posixsh.Quote("/" + j.Name + "/"),
		Announces: kind.app, Command: posixsh.Quote(j.Command), UsesBase: strings.Contains(j.Command, "{base}"),
	}
	if kind.tellsIdle {
		s.EndIdle = int(j.EndIdle.Seconds())
	}
	if j.App == runJob {
		s.Command = j.Command // which is words
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
	t := template.Must(template.ParseFS(jobFiles, "jobs/frame.sh.tmpl", "jobs/idle.sh.tmpl", "jobs/"+j.App+".sh.tmpl")) // the last fills the first
	if err := t.Execute(&b, s); err != nil {
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
	gpus, asked := j.Question(gpusQuestion)
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

// builtinPrefix marks a job that comes with tunctl.
const builtinPrefix = "builtin:"

// Builtin is the name of the builtin job that the session submits, if any.
func (s *Session) Builtin() string {
	if name, ok := strings.CutPrefix(s.Submit, builtinPrefix); ok {
		return name
	}
	return ""
}

// BuiltinJob is the job that comes with tunctl and that the session submits.
func (s *Session) BuiltinJob(host Host, site Site, scheduler string) *Job {
	return &Job{
		App: s.Builtin(), Name: cmp.Or(s.Job, s.Name), Host: host, Site: site, Scheduler: scheduler, Reach: s.Reach, Answers: maps.Clone(s.With),
		Log: s.Log, Prepare: s.Prepare, Command: s.Command, EndIdle: s.EndIdle,
	}
}

// WithAnswers is the session with other answers for its builtin job.
func (s Session) WithAnswers(with map[string]string) *Session {
	answers := map[string]string{}
	maps.Copy(answers, s.With)
	maps.Copy(answers, with)
	s.With = answers
	return &s
}

// Run is the session with another job: one that runs words once, with the settings of the session's
// own. Its log ends with a line that begins with RunEnd of the mark, and then has their status.
func (s Session) Run(mark string, words []string) Session {
	others := jobKindOf(s.Builtin()).questions
	s.With = maps.Clone(s.With)
	maps.DeleteFunc(s.With, func(name, _ string) bool {
		_, other := questionNamed(others, name)
		return other
	})
	s.Name, s.Job, s.Log = "", RunName, ""
	s.Submit, s.Command = builtinPrefix+runJob, ansiQuote(mark)
	for _, word := range words {
		s.Command += " " + ansiQuote(word)
	}
	return s
}

// RunName is the name of the job of Session.Run.
const RunName = "tunctl-run"

// RunEnd is what a job of Session.Run prints before the status of its words.
func RunEnd(mark string) string { return "\x1etunctl: " + mark + " ended with status " }

// ansiQuote makes text one word of bash on one line: Slurm accepts no CR in a script, and Grid Engine
// takes any line that begins with #$ for its own.
func ansiQuote(text string) string {
	return "$'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

// runJob is the builtin job of Session.Run. A config cannot name it.
const runJob = "run"

// CommandJob is the builtin job that runs a command of the user's own.
const CommandJob = "command"

// jobKind is a job that comes with tunctl.
type jobKind struct {
	name string
	what string // for the head of the script
	app  string // what its log announces, or that it serves nothing
	// software are the answers that tell where its program is.
	software string
	open     bool // its page asks for no token or password
	alone    bool // nothing else in its log is the session's page
	// tellsIdle: whether it is used can be read.
	tellsIdle bool
	// questions are those of no other job.
	questions []Question
}

// jobKinds are the jobs that come with tunctl; each has a template in jobs.
var jobKinds = []jobKind{
	{name: "jupyter", what: "A notebook", app: "jupyter", software: anySoftware, tellsIdle: true},
	{name: "tensorboard", what: "TensorBoard", app: "tensorboard", software: anySoftware, open: true, questions: []Question{
		{Name: "logdir", Ask: "The folder with the event files", Kind: AskPath, Default: "runs"},
	}},
	{name: "code-server", what: "VS Code in the browser", app: "code-server", software: "modules, conda or container", alone: true, tellsIdle: true},
	{name: "rstudio", what: "RStudio", app: "rstudio", alone: true, software: "modules or container"},
	{name: "desktop", what: "A desktop", app: "novnc", alone: true, software: "modules or container", questions: []Question{
		{Name: "desktop", Ask: "The program that starts the desktop, such as startxfce4; empty: the first that is installed", Kind: AskPath, Quiet: true},
		{Name: "novnc", Ask: "The folder of noVNC, if it is in none of the usual places", Kind: AskPath, Quiet: true},
	}},
	{name: ShellApp, what: "A job to work in", app: ShellApp, alone: true},
	{name: CommandJob, what: "A program of your own", app: "command", open: true},
	{name: runJob, what: "A command"},
}

const anySoftware = "modules, conda, venv or container"

// BuiltinJobs are the names that may follow "builtin:" in a session's submit.
func BuiltinJobs() []string {
	names := each(jobKinds, func(b jobKind) string { return b.name })
	return slices.DeleteFunc(names, func(name string) bool { return name == runJob })
}

// jobKindOf returns the builtin job of a name; the zero value if there is none.
func jobKindOf(name string) jobKind {
	kind, _ := find(jobKinds, func(b jobKind) bool { return b.name == name })
	return kind
}

// unknownBuiltin is the hint for a name after "builtin:" that is none of ours.
func unknownBuiltin(name string) string {
	if near := suggest.Nearest(name, BuiltinJobs()); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", builtinPrefix+near[0])
	}
	return "available: " + builtinPrefix + strings.Join(BuiltinJobs(), ", "+builtinPrefix)
}

// commandExample is a command for "builtin:command".
const commandExample = "python3 -m http.server {port} --bind {host}"

// placeholderWord matches a word in braces, unless it is a variable of the shell.
var placeholderWord = regexp.MustCompile(`(?:^|[^$])\{([a-z_]+)\}`)

// readCommand reads the command of "builtin:command".
func (s *Session) readCommand(in *input) {
	shellText(&s.Command)(in)
	if s.Command == "" {
		return
	}
	for _, m := range placeholderWord.FindAllStringSubmatch(s.Command, -1) {
		if !in.placeholder(m[1], "; for the braces themselves, put a space after {", "port", "host", "base") {
			return
		}
	}
	if !strings.Contains(s.Command, "{port}") {
		in.src.addError(in.at, "write {port} where the program takes its port, as in: command = "+in.example, "the command has no {port}: a free one is chosen when the job starts")
	}
}

// placeholder checks that a placeholder in the value is one of those known; more is added to
// the hint that lists them.
func (in *input) placeholder(name, more string, known ...string) bool {
	if slices.Contains(known, name) {
		return true
	}
	hint := "available: {" + strings.Join(known, "}, {") + "}" + more
	if near := suggest.Nearest(name, known); len(near) > 0 {
		hint = fmt.Sprintf("did you mean {%s}?", near[0])
	}
	in.src.addError(in.src.within(in.at, "{"+name+"}"), hint, "unknown placeholder {%s}", name)
	return false
}

// dialect is how a builtin job is written for one scheduler.
type dialect struct {
	name   string // in the config
	prefix string // of a line of the script that the scheduler reads; "" if there are none
	// header is what every script tells the scheduler: the job's {name} and its log.
	header  []string
	begin   string // the first commands of a script; {logs} is the folder of a log that it redirects
	profile string // those before them, in a login shell
	// jobName is the nearest name that the scheduler accepts.
	jobName func(name string) string
}

// dialects are those of all schedulers, in the order to show them; the last is that of noScheduler.
var dialects = []dialect{
	{
		name: "slurm", prefix: "#SBATCH ", jobName: anyName, header: []string{"--job-name={name}", "--output=%x.%j.log"},
		begin: privateLog + "\n" + srunCPUs,
	},
	{
		// PBS ignores the script's first line and starts the login shell, which may be csh.
		name: "pbs", prefix: "#PBS ", jobName: pbsName, header: []string{"-N {name}", "-S /bin/bash", "-j oe"},
		begin: "cd \"$PBS_O_WORKDIR\" || exit\nmkdir -p \"{logs}\" && exec >>\"{logs}/$PBS_JOBNAME.$PBS_JOBID.log\" 2>&1",
	},
	{
		// A queue may ignore the script's first line and start its own shell, hence -S.
		name: "gridengine", prefix: "#$ ", jobName: noDigitFirst,
		header:  []string{"-N {name}", "-S /bin/bash", "-cwd", "-j y", "-o $JOB_NAME.$JOB_ID.log"},
		profile: "# shellcheck source=/dev/null\nshopt -q login_shell || { . /etc/profile; umask 077; }\n",
		begin:   privateLog,
	},
	{name: noScheduler, jobName: anyName},
}

// noScheduler is the name, among those of the schedulers, of a host without one.
const noScheduler = "none"

// privateLog is for schedulers that create the log with a umask of their own.
const privateLog = `# The scheduler created the log with a umask of its own.
test -f /proc/self/fd/1 && chmod go= /proc/self/fd/1`

// srunCPUs is for sites and people whose server is started by srun.
const srunCPUs = `# Since Slurm 22.05, srun does not get the number of CPUs from the job.
test -z "$SLURM_CPUS_PER_TASK" || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"`

// Schedulers are the names of the schedulers in the config, in the order to show them.
func Schedulers() []string { return each(dialects, func(d dialect) string { return d.name }) }

// SchedulerChoice lists Schedulers for a sentence: slurm, pbs or none.
func SchedulerChoice() string { return orList(Schedulers()) }

// dialectOf is the dialect of a scheduler; that of noScheduler for one that is not known.
func dialectOf(scheduler string) dialect {
	if d, ok := find(dialects, func(d dialect) bool { return d.name == scheduler }); ok {
		return d
	}
	return dialects[len(dialects)-1]
}

// SameJobName reports whether jobs of two names may have the same one after a scheduler has
// shortened them.
func SameJobName(a, b string) bool {
	return slices.ContainsFunc(dialects, func(d dialect) bool { return d.jobName(a) == d.jobName(b) })
}

func anyName(name string) string { return name }

// noDigitFirst puts a letter in front of a name that begins with a digit, which neither PBS
// nor Grid Engine accepts.
func noDigitFirst(name string) string {
	if strings.IndexAny(name, "0123456789") == 0 {
		return "j" + name
	}
	return name
}

// pbsNameLength is how long a name every PBS accepts.
const pbsNameLength = 15

// numbered matches the number at the end of a name.
var numbered = regexp.MustCompile(`-[0-9]+$`)

// pbsName is a name that every PBS accepts: older ones allow 15 characters. A number at its
// end stays, so that shortened names differ.
func pbsName(name string) string {
	name = noDigitFirst(name)
	if len(name) <= pbsNameLength {
		return name
	}
	end := numbered.FindString(name)
	if len(end) > pbsNameLength/2 {
		end = ""
	}
	return name[:pbsNameLength-len(end)] + end
}
