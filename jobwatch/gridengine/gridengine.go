// Package gridengine is the dialect of Grid Engine: the commands that query, submit and cancel its
// jobs, and what they print. Only [Kind] is for others.
package gridengine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// scheduler is Grid Engine: Sun's and its successors Son of Grid Engine, Open Grid Scheduler,
// Univa's, Altair's and Gridware's. Its list of jobs names their states and hosts, and nothing
// else does; what a job asked for and why it waits is in another answer. Each answer is one
// connection to its server for any number of jobs, so a round needs two at most. How a job
// ended is only in the accounting, a file that the login node reads by itself.
type scheduler struct {
	sched.Basic
	cache *cache
}

// cache is what need not be queried again. It needs no lock: a Watcher runs one command on a
// host at a time.
type cache struct {
	rows      []row // the last list
	at        time.Time
	described bool // that list came with the records of its jobs
	// undescribed is how many jobs had no record after the last list of all.
	undescribed    int
	known          map[string]*knownJob // by the number of the job
	slowAccounting bool                 // it cannot be read in the time that a query has
}

// knownJob is what is remembered of a job.
type knownJob struct {
	record       record
	files        *jobFiles     // nil: not looked for yet
	verification *sched.Reason // whether it can ever run; nil: not asked yet
}

// Kind is that of Grid Engine. PBS has programs of the same names, but no qconf. The programs of Debian
// set SGE_ROOT themselves.
var Kind = sched.Kind{
	Name:         "gridengine",
	New:          func() sched.Scheduler { return newScheduler() },
	Installed:    `has qsub qstat && { test -n "$SGE_ROOT" || has qconf; }`,
	Responds:     `qstat -u "$(id -un)"`,
	ShortList:    true,
	Submit:       `tunctl_limit qsub -terse "$@" "$tunctl_script"`,
	Unreached:    `\(Connection refused\)`,
	JobVariables: []string{"JOB_ID", "SGE_TASK_ID"},
	Discover:     discoverScript,
	Waiting:      waitingPart,
	Directives: sched.Directives{
		Prefix: "#$", Anywhere: true, WholeWords: true,
		Defaults: `test -e "$HOME/.sge_request" || test -e .sge_request`,
	},
	Program: "qsub", JobName: "N", Options: options, LogOption: "o", OwnLog: sched.QsubOwnLog,
	LogIn:      `-o "$tunctl_logs/\$JOB_NAME.\$JOB_ID.log"`,
	LogFolders: true, LogHint: "write $JOB_ID in -o of the script",
}

// basic has the form of ids: 18.1 is a task of 18, and 18.3-9:1 are several that wait.
var basic = sched.Basic{TaskSeparator: ".", RangeMarks: "-,:"}

func newScheduler() scheduler {
	return scheduler{basic, &cache{known: make(map[string]*knownJob)}}
}

func (scheduler) Kind() *sched.Kind { return &Kind }

func (scheduler) IDsIn(env map[string]string) []string {
	return []string{jobID(env["JOB_ID"], env["SGE_TASK_ID"])}
}

func (scheduler) PerRound(connections int) int {
	if connections < 2 { // one answer is the list, and one describes many jobs
		return 0
	}
	return maxDescribed
}

// jobID is 18 for a job, 18.1 for the task of an array, and 18.3-9:2 for tasks that wait.
func jobID(number, task string) string {
	if number == "" || task == "" || task == "undefined" {
		return number
	}
	return number + "." + task
}

// List adds why jobs wait, which takes a second connection.
func (g scheduler) List(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	if _, err := g.qstat(ctx, sh, ":"); err != nil {
		return nil, err
	}
	unknown, waiting := g.toDescribe(lists.Map(g.cache.rows, func(r row) string { return r.number }))
	slices.SortFunc(unknown, sched.CompareIDs)
	slices.SortFunc(waiting, sched.CompareIDs)
	if err := g.describe(ctx, sh, append(waiting, unknown...)); errors.Is(err, remote.ErrLost) || errors.Is(err, remote.ErrNoAnswer) {
		return nil, err
	}
	g.cache.described, g.cache.at = true, time.Now() // the second answer may have taken long
	g.cache.undescribed = max(0, len(unknown)-maxDescribed)
	return lists.Map(g.cache.rows, g.job), nil
}

// describe queries the records of the last of these jobs.
func (g scheduler) describe(ctx context.Context, sh *remote.Shell, numbers []string) error {
	if len(numbers) == 0 {
		return nil
	}
	numbers = numbers[max(0, len(numbers)-maxDescribed):]
	slices.SortFunc(numbers, sched.CompareIDs)
	res, err := sh.Login(ctx, remote.QueryPrelude+describeCommand(numbers))
	if err != nil {
		return err
	}
	return g.readRecords(res)
}

// maxDescribed is how many jobs are described in one answer.
const maxDescribed = 50

// qstat queries the list, and in the same command what second prints. The user's ~/.sge_qstat
// may add the jobs of others to the list.
func (g scheduler) qstat(ctx context.Context, sh *remote.Shell, second string) (answer remote.Result, err error) {
	mark := remote.NewMark()
	res, err := sh.Login(ctx, remote.QueryPrelude+`limit qstat -u "$(id -un)" -r -xml || exit
printf '\n%s\n' `+mark+` "$(id -un)"
`+second)
	if err != nil {
		return remote.Result{}, err
	}
	list, rest, listed := strings.Cut(string(res.Stdout), "\n"+mark+"\n")
	if !listed {
		return remote.Result{}, cmp.Or[error](problem("qstat", res), errList)
	}
	user, rest, _ := strings.Cut(strings.TrimPrefix(rest, "\n"), "\n")
	rows, err := parseList(list)
	if err != nil {
		return remote.Result{}, errList
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.owner != "" && r.owner != user })
	g.cache.rows, g.cache.at, g.cache.described = rows, time.Now(), false
	g.forget()
	return remote.Result{Stdout: []byte(rest), Stderr: res.Stderr, Exit: res.Exit}, nil
}

// forget removes what is known of jobs that are not on the list any more, or whose number is
// another job's there.
func (g scheduler) forget() {
	maps.DeleteFunc(g.cache.known, func(number string, k *knownJob) bool {
		rows := g.matching(number)
		return len(rows) == 0 || k.record.number != "" && !strings.HasPrefix(k.record.name, rows[0].name) // a list may cut it
	})
}

// errList: reading such an answer as "no jobs" would submit a second one.
var errList = api.Errorf(api.CodeFailed, "qstat on the host does not print the XML requested with -xml").
	WithHint("a wrapper replaces the qstat of Grid Engine there: put the real one first in the PATH of your login shell")

// sameRound is how old a list may be to serve for the details of a job on it.
const sameRound = 2 * time.Second

// matching are the rows of the list with that id.
func (g scheduler) matching(id string) []row {
	return slices.DeleteFunc(slices.Clone(g.cache.rows), func(r row) bool { return !g.Matches(api.Job{ID: r.id()}, id) })
}

// Detail needs no connection if a list of the same round has described the jobs on it.
func (g scheduler) Detail(ctx context.Context, sh *remote.Shell, id string) (api.Job, error) {
	number := g.ArrayOf(id)
	described := g.cache.described
	if time.Since(g.cache.at) > sameRound {
		res, err := g.qstat(ctx, sh, describeCommand([]string{number}))
		if err == nil && len(g.matching(id)) > 0 {
			err = g.readRecords(res)
		}
		if err != nil {
			return api.Job{}, err
		}
		described = true
	}
	rows := g.matching(id)
	if len(rows) == 0 {
		return g.ended(ctx, sh, id)
	}
	if !described {
		if err := g.describe(ctx, sh, []string{number}); err != nil {
			return api.Job{}, err
		}
	}
	job, _ := sched.Pick(g, g.withLogs(ctx, sh, rows), id)
	return job, nil
}

// Details makes two connections at most: one for the list; and one for the jobs that are new,
// else for whether a job that waits can ever run, else for why jobs wait.
func (g scheduler) Details(ctx context.Context, sh *remote.Shell, ids []string) ([]api.Job, error) {
	unknown, waiting := g.toDescribe(ids)
	unverified := g.unverified(waiting)
	verifies := len(unknown) == 0 && unverified != ""
	second := describeCommand(append(unknown, waiting...))
	if verifies {
		// It asks whether the job could run if nothing else ran: Grid Engine accepts jobs that never
		// can. It changes nothing.
		second = "limit qalter -w v " + posixsh.Quote(unverified)
	}
	res, err := g.qstat(ctx, sh, second)
	switch {
	case err != nil:
	case verifies:
		err = g.readVerification(unverified, res)
	default:
		err = g.readRecords(res)
	}
	if err != nil {
		return nil, err
	}
	var jobs []api.Job
	for _, id := range ids {
		if rows := g.matching(id); len(rows) > 0 {
			jobs = append(jobs, g.withLogs(ctx, sh, rows)...)
			continue
		}
		job, err := g.ended(ctx, sh, id)
		switch {
		case err == nil:
			jobs = append(jobs, job)
		case !errors.Is(err, sched.ErrNoJob):
			return nil, err
		}
	}
	return jobs, nil
}

// toDescribe returns the numbers of the jobs of which there is no record yet, and of those that
// waited, since reasons change.
func (g scheduler) toDescribe(ids []string) (unknown, waiting []string) {
	for _, id := range ids {
		number := g.ArrayOf(id)
		waits := func(r row) bool { return r.job().State.Waiting() }
		switch {
		case slices.Contains(unknown, number) || slices.Contains(waiting, number):
		case g.known(number).record.number == "":
			unknown = append(unknown, number)
		case slices.ContainsFunc(g.matching(number), waits):
			waiting = append(waiting, number)
		}
	}
	return unknown, waiting
}

// describeCommand queries what the list lacks, for all these jobs over one connection. What a
// running task has used so far is most of a long answer, and not read.
func describeCommand(numbers []string) string {
	if len(numbers) == 0 {
		return ":"
	}
	return "out=$(limit qstat -j " + posixsh.Quote(strings.Join(numbers, ",")) + ` -xml) || { set -- $?; printf '%s\n' "$out"; exit $1; }
printf '%s\n' "$out" | grep -Ev '^ *</?(UA_|scaled|JAT_scaled)' | head -c ` + sched.MaxStatus
}

func (g scheduler) readRecords(res remote.Result) error {
	if err := problem("qstat", res); err != nil && !errors.Is(err, sched.ErrNoJob) { // they may have ended meanwhile
		return err
	}
	for _, record := range parseRecords(string(res.Stdout)) {
		g.known(record.number).record = record
	}
	return nil
}

// readVerification reads what qalter -w v says about a job.
func (g scheduler) readVerification(number string, res remote.Result) error {
	verdict := parseVerification(res)
	if verdict != nil {
		g.known(number).verification = verdict
		return nil
	}
	if err := problem("qalter", res); errors.Is(err, remote.ErrNoAnswer) {
		return err
	}
	if !started.Match(res.Stdout) {
		g.known(number).verification = &sched.Reason{} // this version cannot tell
	}
	return nil
}

// unverified is the first of these jobs that waits without a hold, and of which it is not known
// whether it can ever run.
func (g scheduler) unverified(numbers []string) string {
	for _, number := range numbers {
		queued := func(r row) bool { return r.job().State == api.JobQueued }
		if g.known(number).verification == nil && slices.ContainsFunc(g.matching(number), queued) {
			return number
		}
	}
	return ""
}

// known is what is remembered of a job, to be changed.
func (g scheduler) known(number string) *knownJob {
	k := g.cache.known[number]
	if k == nil {
		k = &knownJob{}
		g.cache.known[number] = k
	}
	return k
}

// job is the job of a row, with what its record adds.
func (g scheduler) job(r row) api.Job {
	job := r.job()
	k := g.known(r.number)
	if k.record.number == "" {
		return job
	}
	k.record.addTo(&job, r)
	if job.State == api.JobQueued {
		k.explainWait(&job, r)
	}
	return job
}

// withLogs are the jobs of rows, with their files.
func (g scheduler) withLogs(ctx context.Context, sh *remote.Shell, rows []row) []api.Job {
	return lists.Map(rows, func(r row) api.Job {
		job := g.job(r)
		g.setLog(ctx, sh, &job, r)
		return job
	})
}

// FindTagged reads the id from qsub's answer. If that was lost, it looks at the newest of the
// user's jobs.
func (g scheduler) FindTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error) {
	answer, err := sched.SubmitOutput(ctx, sh, tag)
	if err != nil {
		return api.Job{}, err
	}
	if id, err := g.ParseSubmit(answer); err == nil {
		return g.Detail(ctx, sh, id)
	}
	jobs, err := g.List(ctx, sh)
	if err != nil {
		return api.Job{}, err
	}
	job, err := sched.WithTag(jobs, tag)
	switch {
	case err != nil && g.cache.undescribed > 0:
		return api.Job{}, sched.ErrIncomplete
	case err != nil:
		return api.Job{}, err
	}
	return g.Detail(ctx, sh, job.ID)
}

// qsubSentence is the answer of qsub to a wrapper that drops -terse. It has precedence over
// qsubNumber, which for an array has the numbers of its tasks: a wrapper may print other numbers.
var (
	qsubNumber   = regexp.MustCompile(`^(\d+)(?:\.[\d,:-]+)?$`)
	qsubSentence = regexp.MustCompile(`^Your job(?:-array)? (\d+)[. (].* has been submitted\.?$`)
)

func (g scheduler) ParseSubmit(res remote.Result) (string, error) {
	g.cache.at = time.Time{} // the list lacks the new job
	m := sched.LastMatch(res.Stdout, qsubSentence, qsubNumber)
	if m == nil || bytes.Contains(res.Stderr, []byte("could not be scheduled")) { // with -now the job is deleted again
		res.Stderr = complaint.ReplaceAll(res.Stderr, nil)
		return "", sched.SubmitError(res, doubt, refusals)
	}
	return m[1], nil
}

func (g scheduler) Cancel(ctx context.Context, sh *remote.Shell, id string) error {
	number, task, _ := strings.Cut(id, ".")
	command := "limit qdel " + posixsh.Quote(number)
	if task != "" {
		command += " -t " + posixsh.Quote(task)
	}
	res, err := sh.Login(ctx, remote.QueryPrelude+command)
	g.cache.at = time.Time{} // the list may still have the job
	if err != nil {
		return err
	}
	return problem("qdel", res)
}

// Extend: qalter answers that it has modified the request of a running job, and qstat shows
// it, but the job is killed at its old limit.
func (scheduler) Extend(context.Context, *remote.Shell, string, time.Duration) error {
	return fmt.Errorf("%w: Grid Engine reads the time limit of a job when it starts", sched.ErrCannotExtend)
}

// ExplainGone: a job that ended is in the accounting within 40 seconds, one that was deleted
// before it ran never is.
func (g scheduler) ExplainGone(job *api.Job, ran bool) bool {
	job.State, job.Hint = api.JobNeverRan, "Grid Engine no longer knows the job: it was deleted before it ran"
	if ran {
		job.State, job.Hint = api.JobFinished, "the job has left the queue; qacct does not tell how it ended"
	}
	return true
}

// problem is the error for a command's status and messages, nil for success. Some commands
// write their messages to standard output.
func problem(command string, res remote.Result) error {
	said := remote.Result{Stderr: slices.Concat(res.Stdout, res.Stderr), Exit: res.Exit}
	if res.Exit != 0 && noHost.Match(said.Stderr) {
		return api.Errorf(api.CodeFailed, "%s failed: %s", command, sched.LastErrorLine(said)).WithHint("%s", sched.FromLogin)
	}
	return sched.Failure(command, said, noAnswer, noJob)
}
