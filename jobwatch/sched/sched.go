// Package sched is the contract between jobwatch and the schedulers, as database/sql/driver is that of
// databases: a [Kind] says as data what is the same on all hosts, and its [Scheduler] does what differs. jobwatch
// only calls these; the packages slurm, pbs, gridengine and plain implement them.
//
// The rest of the package is what the dialects share: reading times, options, directives and
// messages, picking jobs, and the folder of a submission. It does not know logs, and no dialect.
package sched

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/jobwatch/remote"
)

// ErrNoJob means that the scheduler answered and does not know the job, or no longer.
var ErrNoJob = errors.New("the scheduler does not know this job")

// Scheduler is a scheduler as one host has it. An implementation embeds Basic.
type Scheduler interface {
	// Kind is what is the same on all hosts.
	Kind() *Kind
	// List returns the user's jobs that wait or run, in one query.
	List(ctx context.Context, sh *remote.Shell) ([]api.Job, error)
	// WithName returns those jobs of a list that may have that name.
	WithName(ctx context.Context, sh *remote.Shell, jobs []api.Job, name string) ([]api.Job, error)
	// Detail returns everything about one job, also an ended one.
	Detail(ctx context.Context, sh *remote.Shell, id string) (api.Job, error)
	// PerRound is how many jobs a query for the watched jobs alone may be for, if a round may
	// make that many connections to the server. It counts with Kind.ShortList only.
	PerRound(connections int) int
	// Details returns everything about a few jobs, at most PerRound. One that is missing is gone.
	Details(ctx context.Context, sh *remote.Shell, ids []string) ([]api.Job, error)
	// History returns the user's jobs of the last day or more that the host remembers,
	// perhaps with those that wait or run.
	History(ctx context.Context, sh *remote.Shell) ([]api.Job, error)
	// FindTagged finds the job that was submitted from the folder of tag, also an ended one. It may
	// fail with ErrIncomplete.
	FindTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error)
	// ExplainGone sets the state and the hint of a job that the scheduler no longer knows,
	// and reports whether it could. ran says that the job was seen running.
	ExplainGone(job *api.Job, ran bool) bool
	// Cancel ends a job. ErrNoJob means that it has ended already.
	Cancel(ctx context.Context, sh *remote.Shell, id string) error
	// Extend sets a job's time limit, counted from its start, or fails with ErrCannotExtend.
	Extend(ctx context.Context, sh *remote.Shell, id string, limit time.Duration) error
	// ParseSubmit reads the output and the exit status of Kind.Submit.
	ParseSubmit(res remote.Result) (id string, err error)
	// TestStart says when a job would start.
	TestStart(ctx context.Context, sh *remote.Shell, t Trial) (Start, error)
	// Demand reads what a job asks for from its options.
	Demand(o OptionSet) Demand
	// AddClusters makes queries include the clusters that arguments of the submit command
	// name, and reports whether one of them is new.
	AddClusters(args []string) bool

	// Matches reports whether job is the one with that id, however complete, or part of it.
	Matches(job api.Job, id string) bool
	// AsRequested returns job with the id that it was requested by. If an array was
	// requested, the number of its task goes to api.Job.Task.
	AsRequested(job api.Job, id string) api.Job
	// ArrayOf is the array that a job belongs to, where the list has the tasks of an array as
	// jobs with their own ids, else the job itself. An array is followed as a whole, since its
	// tasks come and go.
	ArrayOf(id string) string
	// IsTaskRange reports whether an id stands for several tasks that wait together.
	IsTaskRange(id string) bool
	// TaskRef is the api.Job.Ref of the array's task in api.Job.Task.
	TaskRef(job api.Job) string

	// IDsIn reads the ids of a job from the Kind.JobVariables of one of its processes.
	// Unknown ones are empty.
	IDsIn(env map[string]string) []string
	// ReadDiscovery reads what the parts of Kind.Discover printed.
	ReadDiscovery(a *Discovery, look *api.Look)
	// Processes returns the processes of a running job, if the scheduler knows them.
	Processes(ctx context.Context, sh *remote.Shell, ref string) ([]int, error)
	// StepOutput returns the newest output of a job's running steps.
	StepOutput(ctx context.Context, sh *remote.Shell, id string) ([]byte, error)
	// Usage is what a job uses. With Kind.HasSteps it asks for that, and for the number
	// of CPUs only if it is not known yet; else it is what the last answer about the job had.
	Usage(ctx context.Context, sh *remote.Shell, ref string, cpus int) (Usage, error)
}

// Basic is what a Scheduler does that only some schedulers do otherwise.
type Basic struct {
	TaskSeparator string // between an array's id and a task's number, as in 54_1; "": tasks have no ids of that form
	RangeMarks    string // an id with one of these characters stands for several tasks
}

// Matches implements [Scheduler]: the tasks 54_0 and 54_[2-5] match the array 54, and the parts 64+0 and 64+1
// Slurm's heterogeneous job 64.
func (b Basic) Matches(job api.Job, ref string) bool {
	id, cluster := SplitRef(ref)
	if cluster != "" && job.Cluster != cluster {
		return false
	}
	part := strings.HasPrefix(job.ID, id+b.TaskSeparator) || strings.HasPrefix(job.ID, id+"+")
	return job.ID == id || b.TaskSeparator != "" && part
}

// AsRequested implements [Scheduler]: it makes 54_1 the task 1 of 54.
func (b Basic) AsRequested(job api.Job, id string) api.Job {
	if task, ok := strings.CutPrefix(job.ID, id+b.TaskSeparator); ok && job.Task == "" && strings.Trim(task, "0123456789") == "" {
		job.Task = task
	}
	job.ID = id
	return job
}

// WithName implements [Scheduler].
func (Basic) WithName(_ context.Context, _ *remote.Shell, jobs []api.Job, _ string) ([]api.Job, error) {
	return jobs, nil
}

// Details implements [Scheduler].
func (Basic) Details(context.Context, *remote.Shell, []string) ([]api.Job, error) { return nil, nil }

// PerRound implements [Scheduler].
func (Basic) PerRound(int) int { return 0 }

// Demand implements [Scheduler].
func (Basic) Demand(OptionSet) Demand { return Demand{} }

// IDsIn implements [Scheduler].
func (Basic) IDsIn(map[string]string) []string { return nil }

// ReadDiscovery implements [Scheduler].
func (Basic) ReadDiscovery(*Discovery, *api.Look) {}

// ExplainGone implements [Scheduler].
func (Basic) ExplainGone(*api.Job, bool) bool { return false }

// TestStart implements [Scheduler].
func (Basic) TestStart(context.Context, *remote.Shell, Trial) (Start, error) {
	return Start{Words: "the scheduler does not tell when a job would start"}, nil
}

// AddClusters implements [Scheduler].
func (Basic) AddClusters([]string) bool { return false }

// ArrayOf implements [Scheduler]: it is 54 for 54_1 and for 54_[2-5].
func (b Basic) ArrayOf(id string) string {
	if b.TaskSeparator != "" {
		id, _, _ = strings.Cut(id, b.TaskSeparator)
	}
	return id
}

// IsTaskRange implements [Scheduler].
func (b Basic) IsTaskRange(id string) bool { return strings.ContainsAny(id, b.RangeMarks) }

// TaskRef implements [Scheduler].
func (b Basic) TaskRef(job api.Job) string {
	if job.Task != "" {
		job.ID += b.TaskSeparator + job.Task
	}
	return job.Ref()
}

// Processes implements [Scheduler].
func (Basic) Processes(context.Context, *remote.Shell, string) ([]int, error) { return nil, nil }

// StepOutput implements [Scheduler].
func (Basic) StepOutput(context.Context, *remote.Shell, string) ([]byte, error) {
	return nil, ErrNoSteps
}

// Usage implements [Scheduler].
func (Basic) Usage(context.Context, *remote.Shell, string, int) (Usage, error) {
	return Usage{}, ErrNoUsage
}

// Kind is a kind of scheduler: how to create one, how to recognize it on a host, and what is the
// same wherever it is installed.
type Kind struct {
	Name string // in the config file
	New  func() Scheduler
	// Installed is the sh command that succeeds if the scheduler's programs are on the PATH;
	// it may use the function has. Responds is the one that succeeds if its server responds.
	Installed, Responds string
	// NodeNames is the sh text that prints the other names of the node "$n".
	NodeNames string
	// ShortList: a list has little about each job, and every detail costs a connection. So the
	// watched jobs are queried alone if they are few; see Scheduler.Details.
	ShortList bool
	// UnseenHint is what it means if the server has never known a job that it accepted, even
	// after a minute; "" if that means nothing.
	UnseenHint string
	// Submit is the sh text that submits the file "$tunctl_script" with the arguments "$@" from
	// the current folder, and prints the new job's id.
	Submit string
	// Unreached is the pattern of grep -E for what Submit prints if it could not connect to the server, so
	// that nothing was submitted.
	Unreached string
	// JobVariables are the variables that a job's processes have; see Scheduler.IDsIn.
	JobVariables []string
	// HasSteps: programs can be started inside a running job. What they print and use is a question of its own.
	HasSteps bool
	// JobsAreProcesses: there is no scheduler, and a job is a process on the login node. A list has as much about
	// its files as detail.
	JobsAreProcesses bool
	// AsksStart: when a job would start is a question to the server.
	AsksStart bool
	// Directives say how a job script has options; zero if it cannot.
	Directives Directives
	// Discover is the sh text that prints what `tunctl init` asks about, in parts: a line
	// "part NAME SECONDS BYTES COMMAND..." prints what a command prints, and Scheduler.ReadDiscovery
	// reads it.
	Discover string
	// Waiting is the part of the same form that prints how many jobs wait, if Discover does not.
	Waiting string
	// Program is the submit command as the user would type it.
	Program string
	// JobName is the option for the name of a job; "" if there is none.
	JobName string
	// Options make the user's choices options of the submit command, by the names of the choices.
	Options map[string]PlaceFor
	// LogOption is the option for a job's log, and OwnLog matches a log that each job has for itself.
	LogOption string
	OwnLog    *regexp.Regexp
	// LogIn is the sh text of the arguments for a log in the folder "$tunctl_logs".
	LogIn string
	// LogHint says how to give each job its own.
	LogHint string
	// LogFolders: a log in its options may be a folder, in which each job has its own.
	LogFolders bool
}

// ErrCannotExtend means that no job of the scheduler can be extended, by anyone.
var ErrCannotExtend = errors.New("the time limit of a running job cannot be changed")

// ErrDoubt means that the answer does not show whether the job exists.
var ErrDoubt = errors.New("the scheduler's answer was lost")

// ErrIncomplete means that FindTagged did not look at all jobs that could be the one of a tag: each
// costs a connection, and the next call looks at others.
var ErrIncomplete = errors.New("not all jobs were looked at yet")

// Trial is a job of which only the start is wanted.
type Trial struct {
	// PrintScript is the sh text that prints the job script.
	PrintScript string
	Args        []string // of the submit command
	Workdir     string   // a folder on the host, as its shell reads it
}

// Start is what a scheduler says about when a job would start. All of it is an estimate.
type Start struct {
	At    time.Time // zero: it does not tell
	Words string    // what it tells besides or instead
	// Submitted is the job that a command submitted which should only have tested it;
	// Cancelled says that it was cancelled.
	Submitted string
	Cancelled bool
}

// Usage is what a scheduler's accounting has counted for a running job: coarse, and
// minutes old.
type Usage struct {
	At          time.Time     // when the scheduler answered
	Elapsed     time.Duration // since the job's start, as the scheduler counts it; 0: not known
	CPU         time.Duration // time of CPUs that the job has used in all
	CPUs        int           // 0: not known
	Memory      int64         // bytes; 0: not known
	MemoryLimit int64         // 0: none, or not known
}

// ErrNoUsage means that the host's scheduler has not counted what a job uses.
var ErrNoUsage = errors.New("the scheduler does not tell what a running job uses")

// ErrNoSteps means that the scheduler cannot show the output of a running job.
var ErrNoSteps = errors.New("the scheduler does not show the output of a job")

// UsageFor is how long the usage of a job is kept that nobody asks for.
const UsageFor = time.Hour

// Discovery is what the parts of Kind.Discover printed, by name.
type Discovery struct {
	Parts  map[string]string
	Login  string   // the login on the host
	Groups []string // of the login
}

// Lines are the lines of a part that are not empty.
func (a *Discovery) Lines(part string) []string {
	return slices.DeleteFunc(strings.Split(a.Parts[part], "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// plainWord matches names that are safe wherever an answer can go.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+:/-]{0,99}$`)

// PlainWord is a name that the host printed, or "" if it is not a plain word.
func PlainWord(text string) string {
	text = strings.TrimSpace(text)
	if !plainWord.MatchString(text) {
		return ""
	}
	return text
}

// PlainWords are those of a list that are plain words.
func PlainWords(list []string) []string {
	return slices.DeleteFunc(lists.Map(list, PlainWord), func(word string) bool { return word == "" })
}
