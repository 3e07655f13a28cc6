package configs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/suggest"
)

// builtinPrefix marks a job that comes with tunctl.
const builtinPrefix = "builtin:"

// Builtin is the name of the builtin job that the session submits, if any.
func (s *Session) Builtin() string {
	name, ok := strings.CutPrefix(s.Submit, builtinPrefix)
	if !ok {
		return ""
	}
	return name
}

// BuiltinJob is the job that comes with tunctl and that the session submits.
func (s *Session) BuiltinJob(host Host, site Site, scheduler string) *Job {
	return &Job{
		App: s.Builtin(), Name: cmp.Or(s.Job, s.Name), Host: host, Site: site, Scheduler: scheduler, Reach: s.Reach, Answers: maps.Clone(s.With),
		Log: s.Log, Prepare: s.Prepare, Command: s.Command,
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

// CommandJob is the builtin job that runs a command of the user's own.
const CommandJob = "command"

// jobKind is a job that comes with tunctl.
type jobKind struct {
	name string
	what string // for the head of the script
	app  string // what its log announces
	open bool   // its page asks for no token or password
	// questions are those of no other job.
	questions []Question
}

// jobKinds are the jobs that come with tunctl; each has a template in jobs.
var jobKinds = []jobKind{
	{name: "jupyter", what: "A notebook", app: "jupyter"},
	{name: "tensorboard", what: "TensorBoard", app: "tensorboard", open: true, questions: []Question{
		{Name: "logdir", Ask: "The folder with the event files", Kind: AskPath, Default: "runs"},
	}},
	{name: "code-server", what: "VS Code in the browser", app: "code-server"},
	{name: "rstudio", what: "RStudio", app: "rstudio"},
	{name: "desktop", what: "A desktop", app: "novnc", questions: []Question{
		{Name: "desktop", Ask: "The program that starts the desktop, such as startxfce4; empty: the first that is installed", Kind: AskPath, Quiet: true},
		{Name: "novnc", Ask: "The folder of noVNC, if it is in none of the usual places", Kind: AskPath, Quiet: true},
	}},
	{name: ShellApp, what: "A job to work in"},
	{name: CommandJob, what: "A program of your own", app: "command", open: true},
}

// BuiltinJobs are the names that may follow "builtin:" in a session's submit.
func BuiltinJobs() []string { return each(jobKinds, func(b jobKind) string { return b.name }) }

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
