package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// errNoJob means that the scheduler answered and does not know the job, or no longer.
var errNoJob = errors.New("the scheduler does not know this job")

// scheduler is a scheduler as one host has it. To add one, implement it in files with the
// scheduler's name, on top of basic, and add its schedulerKind to schedulerKinds.
type scheduler interface {
	// kind is what is the same on all hosts.
	kind() *schedulerKind
	// list returns the person's jobs that wait or run, in one query.
	list(ctx context.Context, sh *remote.Shell) ([]api.Job, error)
	// withName returns those jobs of a list that may have that name.
	withName(ctx context.Context, sh *remote.Shell, jobs []api.Job, name string) ([]api.Job, error)
	// detail returns everything about one job, also an ended one.
	detail(ctx context.Context, sh *remote.Shell, id string) (api.Job, error)
	// details returns everything about a few jobs, at most schedulerKind.perRound. One that is
	// missing is gone.
	details(ctx context.Context, sh *remote.Shell, ids []string) ([]api.Job, error)
	// history returns the person's jobs of the last day or more that the host remembers,
	// perhaps with those that wait or run.
	history(ctx context.Context, sh *remote.Shell) ([]api.Job, error)
	// findTagged finds the job that was submitted from the folder of tag, also an ended one.
	findTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error)
	// explainGone sets the state and the hint of a job that the scheduler no longer knows,
	// and reports whether it could. ran says that the job was seen running.
	explainGone(job *api.Job, ran bool) bool
	// cancel ends a job. errNoJob means that it has ended already.
	cancel(ctx context.Context, sh *remote.Shell, id string) error
	// extend sets a job's time limit, counted from its start, or fails with errCannotExtend.
	extend(ctx context.Context, sh *remote.Shell, id string, limit time.Duration) error
	// parseSubmit reads the output and the exit status of schedulerKind.submit.
	parseSubmit(res remote.Result) (id string, err error)
	// testStart says when a job would start.
	testStart(ctx context.Context, sh *remote.Shell, s Submission) (Start, error)
	// addClusters makes queries include the clusters that arguments of the submit command
	// name, and reports whether one of them is new.
	addClusters(args []string) bool

	// matches reports whether job is the one with that id, however complete, or part of it.
	matches(job api.Job, id string) bool
	// asRequested returns job with the id that it was requested by. If an array was
	// requested, the number of its task goes to api.Job.Task.
	asRequested(job api.Job, id string) api.Job
	// arrayOf is the array that a job belongs to, where the list has the tasks of an array as
	// jobs with their own ids, else the job itself. An array is followed as a whole, since its
	// tasks come and go.
	arrayOf(id string) string
	// isTaskRange reports whether an id stands for several tasks that wait together.
	isTaskRange(id string) bool
	// taskRef is the api.Job.Ref of the array's task in api.Job.Task.
	taskRef(job api.Job) string

	// processes returns the processes of a running job, if the scheduler knows them.
	processes(ctx context.Context, sh *remote.Shell, ref string) ([]int, error)
	// stepOutput returns the newest output of a job's running steps.
	stepOutput(ctx context.Context, sh *remote.Shell, id string) ([]byte, error)
	// usage is what a job uses. With schedulerKind.asksUsage it asks for that, and for the number
	// of CPUs only if it is not known yet; else it is what the last answer about the job had.
	usage(ctx context.Context, sh *remote.Shell, ref string, cpus int) (Usage, error)
}

// basic is a scheduler without what only some schedulers can do.
type basic struct{}

func (basic) withName(_ context.Context, _ *remote.Shell, jobs []api.Job, _ string) ([]api.Job, error) {
	return jobs, nil
}

func (basic) details(context.Context, *remote.Shell, []string) ([]api.Job, error) { return nil, nil }

func (basic) explainGone(*api.Job, bool) bool { return false }

func (basic) testStart(context.Context, *remote.Shell, Submission) (Start, error) { //nolint:unparam // what Slurm answers can fail
	return Start{Words: "the scheduler does not tell when a job would start"}, nil
}

func (basic) addClusters([]string) bool { return false }

func (basic) arrayOf(id string) string { return id }

func (basic) isTaskRange(string) bool { return false }

func (basic) taskRef(job api.Job) string { return job.Ref() }

func (basic) processes(context.Context, *remote.Shell, string) ([]int, error) { return nil, nil }

func (basic) stepOutput(context.Context, *remote.Shell, string) ([]byte, error) {
	return nil, ErrNoSteps
}

func (basic) usage(context.Context, *remote.Shell, string, int) (Usage, error) {
	return Usage{}, errNoUsage
}

// schedulerKind says how to create a scheduler, and how to recognize it on a host.
type schedulerKind struct {
	name string
	make func() scheduler
	// installed is the sh command that succeeds if the scheduler's programs are on the PATH;
	// it may use the function has. responds is the one that succeeds if its server responds.
	installed, responds string
	// nodeNames is the sh text that prints the other names of the node "$n".
	nodeNames string
	// listHasFiles: a list has as much about a job's files as detail.
	listHasFiles bool
	// perRound is how many jobs a query for the watched jobs alone may be for, if a round may
	// make that many connections to the server. It is set where a list has little about each
	// job, and every detail costs a connection.
	perRound func(connections int) int
	// unseenHint is what it means if the server has never known a job that it accepted, even
	// after unseenFor; "" if that means nothing.
	unseenHint string
	// submit is the sh text that submits the file "$tunctl_script" with the arguments "$@" from
	// the current folder, and prints the new job's id.
	submit string
	// jobVariables are the variables that a job's processes have; idsIn reads the ids of the job
	// from them, of which unknown ones are empty.
	jobVariables []string
	idsIn        func(env map[string]string) []string
	// hasSteps: programs can be started inside a running job, and stepOutput shows their output.
	hasSteps bool
	// asksStart: when a job would start is a question to the server.
	asksStart bool
	// asksUsage: what a job uses is a question of its own.
	asksUsage bool
	// directives say how a job script has options; zero if it cannot.
	directives directiveSyntax
	// look is the sh text of its parts of a look; see Watcher.Look. readLook reads them.
	look     string
	readLook func(*lookAnswer, *api.Look)
	// program is the submit command as a person would type it.
	program string
	// jobName is the option for the name of a job; "" if there is none.
	jobName string
	// choices are the words for a person's choices, by their names.
	choices map[string]choiceWord
	// demand reads what a job asks for from its options.
	demand func(givenOptions) demand
	// logOption is the option for a job's log, and ownLog matches a log that each job has for itself.
	logOption string
	ownLog    *regexp.Regexp
	// logHint says how to give each job its own.
	logHint string
	// logFolders: a log in its options may be a folder, in which each job has its own.
	logFolders bool
}

// schedulerKinds are all schedulers. If a host has several, the first that responds is used.
var schedulerKinds = []*schedulerKind{&slurmKind, &pbsKind, &gridEngineKind, &plainKind}

// kindNamed is the kind of scheduler with that name, or nil.
func kindNamed(name string) *schedulerKind {
	i := slices.IndexFunc(schedulerKinds, func(k *schedulerKind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return schedulerKinds[i]
}

func schedulerNamed(name string) (scheduler, error) {
	if k := kindNamed(name); k != nil {
		return k.make(), nil
	}
	var names []string
	for _, k := range schedulerKinds {
		names = append(names, strconv.Quote(k.name))
	}
	last := len(names) - 1
	return nil, fmt.Errorf("unknown scheduler %q: expected %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// account is who we are on the host.
type account struct {
	scheduler, user, node string
	installed             string // the schedulers of which none responds, if scheduler is empty
}

// accountScript prints the account. It finds schedulers on the login shell's PATH. If several
// are installed, as after a migration or with wrappers, it prints the first that responds,
// or "" if none does.
func accountScript() string {
	var installed, responds string
	for _, k := range schedulerKinds {
		if k.installed != "" {
			installed += "if " + k.installed + `; then set -- "$@" ` + k.name + "; fi\n"
			responds += "\t" + k.name + ") answers " + k.responds + " ;;\n"
		}
	}
	return `has() { for p; do command -v "$p" >/dev/null 2>&1 || return 1; done; }
answers() { if has timeout; then timeout 10 "$@"; else "$@"; fi >/dev/null 2>&1 </dev/null; }
set --
` + installed + `s=
case $# in
0) s=` + None + `
` + unsupportedScript() + ` ;;
1) s=$1 ;;
*) for k; do
	case $k in
` + responds + `	esac && s=$k && break
done ;;
esac
printf '%s\n' "$s" "$(id -un)" "$(uname -n)" "$*"`
}

// splitRef splits an api.Job.Ref. Any other text with a semicolon is an id.
func splitRef(ref string) (id, cluster string) {
	if m := clusterRef.FindStringSubmatch(ref); m != nil {
		return m[1], m[2]
	}
	return ref, ""
}

var clusterRef = regexp.MustCompile(`^(\d[^;]*);([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)

// asTask returns job with the id that it was requested by. If its own id is that of a task, which
// follows the array's id and a separator, the number of the task goes to api.Job.Task.
func asTask(job api.Job, id, separator string) api.Job {
	if task, ok := strings.CutPrefix(job.ID, id+separator); ok && job.Task == "" && strings.Trim(task, "0123456789") == "" {
		job.Task = task
	}
	job.ID = id
	return job
}

// jobsFrom are the jobs in what a scheduler prints.
func jobsFrom[R any](records []R, job func(R) api.Job) []api.Job {
	jobs := make([]api.Job, len(records))
	for i, r := range records {
		jobs[i] = job(r)
	}
	return jobs
}

// pickRecord is pick, and returns the record of the job too.
func pickRecord[R interface{ job() api.Job }](s scheduler, records []R, id string) (job api.Job, r R, ok bool) {
	jobs := jobsFrom(records, R.job)
	if job, ok = pick(s, jobs, id); ok {
		r = records[slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == job.ID })]
	}
	return job, r, ok
}

// errCannotExtend means that no job of the scheduler can be extended, by anyone.
var errCannotExtend = errors.New("the time limit of a running job cannot be changed")
