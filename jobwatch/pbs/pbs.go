// Package pbs is the dialect of PBS Professional, OpenPBS and Torque: the commands that query, submit
// and cancel its jobs, and what they print. Only [Kind] is for others.
package pbs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// scheduler is PBS Professional, OpenPBS or Torque. Each of its programs opens its own connection
// to the server, qstat -f one per job, from one of the few hundred privileged ports that the
// whole login node has. So there must be few queries.
type scheduler struct {
	sched.Basic
	cache *cache
}

// cache is what need not be queried again. All but usages needs no lock: a Watcher runs one
// command on a host at a time.
type cache struct {
	noHistory bool               // the server keeps no history, or -x means something else
	scripts   map[string]string  // the lines of jobs' scripts that redirect output, by id
	others    map[[2]string]bool // by a tag and the id of a job: the job was looked at, and is not the tag's

	mu     sync.Mutex
	usages map[string]sched.Usage // of running jobs, by id
}

// Kind is that of PBS. Grid Engine has programs of the same names, and a qconf.
var Kind = sched.Kind{
	Name:      "pbs",
	New:       func() sched.Scheduler { return newScheduler() },
	Installed: `has qsub qselect qstat && test -z "$SGE_ROOT" && ! has qconf`,
	Responds:  `qselect -u "$(id -un)"`,
	NodeNames: `pbsnodes -v "$n" 2>/dev/null | sed -n 's/^ *Mom = //p'`,
	ShortList: true,
	// A routing queue deletes a job that no destination accepts, and not even the history has it.
	UnseenHint:   notRouted,
	Submit:       submitScript,
	Unreached:    `Connection refused|cannot connect to server`,
	JobVariables: []string{"PBS_JOBID"},
	Discover:     discoverScript,
	Directives: sched.Directives{
		Prefix: "#PBS",
		// Of the qsub of NCAR.
		Variables: func(option string) []string { return map[string][]string{"A": {"PBS_ACCOUNT"}}[option] },
	},
	Program: "qsub", JobName: "N", Options: options, LogOption: "o", OwnLog: sched.QsubOwnLog,
	LogIn:      `-o "$tunctl_logs/"`, // what the script prints before it redirects, and PBS at its end
	LogFolders: true, LogHint: "remove -o from the script, or let it name a folder",
}

func newScheduler() scheduler {
	return scheduler{cache: &cache{scripts: make(map[string]string), others: make(map[[2]string]bool), usages: make(map[string]sched.Usage)}}
}

func (scheduler) Kind() *sched.Kind { return &Kind }

func (scheduler) IDsIn(env map[string]string) []string { return []string{env["PBS_JOBID"]} }

// PerRound: qstat -f opens a connection for each job.
func (scheduler) PerRound(connections int) int { return connections }

// qstatTable lists all jobs of the user over one connection. Torque has no option -w and
// fails before it connects.
const qstatTable = `table() {
	limit qstat $1 -u "$(id -un)" -n -s -1 -w
	set -- $? $1
	if test $1 -eq 2; then limit qstat $2 -u "$(id -un)" -n -s -1; set -- $?; fi
	return $1
}
`

func (scheduler) List(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	res, err := query(ctx, sh, "qstat", qstatTable+"table")
	if err != nil && !errors.Is(err, sched.ErrNoJob) {
		return nil, err
	}
	jobs := parseTable(string(res.Stdout), sh.Now())
	if len(jobs) == 0 && !emptyTable(string(res.Stdout)) {
		return nil, errQstatTable
	}
	return jobs, nil
}

// errQstatTable: reading such an answer as "no jobs" would submit a second one.
var errQstatTable = api.Errorf(api.CodeFailed, "qstat on the host does not print the table requested with -u").
	WithHint("a wrapper replaces the qstat of PBS there: put the real one first in the PATH of your login shell")

func (p scheduler) Details(ctx context.Context, sh *remote.Shell, ids []string) ([]api.Job, error) {
	records, err := p.status(ctx, sh, ids)
	if err != nil && !errors.Is(err, sched.ErrNoJob) {
		return nil, err
	}
	maps.DeleteFunc(p.cache.scripts, func(id, _ string) bool { // of other jobs
		return !slices.ContainsFunc(records, func(r record) bool { return r["Job Id"] == id })
	})
	records = p.withoutArrays(records, ids)
	p.keepUsage(records)
	jobs := lists.Map(records, record.job)
	for i := range jobs {
		p.setLog(ctx, sh, &jobs[i], records[i])
	}
	return jobs, nil
}

// Detail also looks for redirections in the job's script, since PBS keeps standard output on
// the node until the job ends.
func (p scheduler) Detail(ctx context.Context, sh *remote.Shell, id string) (api.Job, error) {
	records, err := p.status(ctx, sh, []string{id})
	records = p.withoutArrays(records, []string{id})
	p.keepUsage(records)
	job, r, ok := sched.PickRecord(p, records, record.job, id)
	if !ok {
		return api.Job{}, cmp.Or(err, sched.ErrNoJob)
	}
	p.setLog(ctx, sh, &job, r)
	return job, nil
}

// status is qstat -f of a few jobs, also ended ones. A server without a history, which is
// OpenPBS's default, answers -x with success and no output, even for a running job; Torque
// answers with XML. The cache remembers that.
func (p scheduler) status(ctx context.Context, sh *remote.Shell, ids []string) ([]record, error) {
	options := "-f "
	if slices.ContainsFunc(ids, isArray) {
		options += "-t "
	}
	if len(ids) == 1 && taskID.MatchString(ids[0]) {
		ids = []string{ids[0], taskID.ReplaceAllString(ids[0], "$1[]$2")} // which has the script
	}
	for switched := false; ; switched = true {
		history := "-x "
		if p.cache.noHistory {
			history = ""
		}
		res, err := sh.Login(ctx, remote.QueryPrelude+"out=$(limit qstat "+history+options+posixsh.Join(ids)+")\nset -- $?\n"+
			`printf '%s\n' "$out" | head -c `+sched.MaxStatus+"\nexit $1")
		if err != nil {
			return nil, err
		}
		records := splitQstat(string(res.Stdout))
		lacksHistory := history != "" && len(records) == 0 && res.Exit == 0
		hasHistory := history == "" && strings.Contains(string(res.Stderr), "use -x") // it has been switched on
		if switched || !lacksHistory && !hasHistory {
			return records, problem("qstat", res)
		}
		p.cache.noHistory = lacksHistory
	}
}

// WithName queries the server for the name if the list only has the beginning of a long
// one.
func (p scheduler) WithName(ctx context.Context, sh *remote.Shell, jobs []api.Job, name string) ([]api.Job, error) {
	var sure, unsure []api.Job
	for _, job := range jobs {
		same, cut := sameName(job.Name, name)
		job.Name = name
		switch {
		case same && cut:
			unsure = append(unsure, job)
		case same:
			sure = append(sure, job)
		}
	}
	if len(unsure) == 0 {
		return sure, nil
	}
	ids, err := p.qselect(ctx, sh, "-N "+posixsh.Quote(name))
	if err != nil {
		return nil, err
	}
	for _, job := range unsure {
		if slices.ContainsFunc(ids, func(id string) bool { return p.Matches(api.Job{ID: id}, job.ID) }) {
			sure = append(sure, job)
		}
	}
	return sure, nil
}

// qselect returns the ids of the user's jobs that match the options.
func (scheduler) qselect(ctx context.Context, sh *remote.Shell, options string) ([]string, error) {
	res, err := query(ctx, sh, "qselect", `limit qselect -u "$(id -un)" `+options)
	return slices.DeleteFunc(strings.Fields(string(res.Stdout)), func(word string) bool { return !qsubID.MatchString(word) }), err
}

// FindTagged reads the id from qsub's answer. If that was lost, it looks at the two newest of
// the jobs created since that it has not looked at yet: each job costs a connection.
func (p scheduler) FindTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error) {
	dir := sched.TagFolder(sh, tag)
	res, err := sh.Login(ctx, remote.QueryPrelude+"cat "+dir+`/tunctl.out 2>/dev/null
printf '\n%s\n' tunctl.since
t=$(stat -c %Y `+dir+"/tunctl.lock 2>/dev/null || stat -f %m "+dir+`/tunctl.lock 2>/dev/null) || exit 0
t=$((t - 600)) # their clocks may differ
date -u -d "@$t" +%Y%m%d%H%M 2>/dev/null || date -u -r "$t" +%Y%m%d%H%M`)
	if err != nil {
		return api.Job{}, err
	}
	answered, since, _ := bytes.Cut(res.Stdout, []byte("tunctl.since\n"))
	if id, err := p.ParseSubmit(remote.Result{Stdout: answered}); err == nil {
		return p.Detail(ctx, sh, id)
	}
	if since = bytes.TrimSpace(since); len(since) == 0 {
		return api.Job{}, sched.ErrNoJob // nothing was submitted under this tag
	}
	ids, err := p.qselect(ctx, sh, "-tc.ge."+posixsh.Quote(string(since)))
	if _, refused := errors.AsType[*api.Error](err); refused { // Torque does not know the option
		ids, err = p.qselect(ctx, sh, "")
	}
	if err != nil {
		return api.Job{}, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return p.cache.others[[2]string{tag, id}] })
	slices.SortFunc(ids, sched.CompareIDs)
	older := max(0, len(ids)-2)
	if len(ids) == 0 {
		return api.Job{}, sched.ErrNoJob
	}
	jobs, err := p.Details(ctx, sh, ids[older:])
	if err != nil {
		return api.Job{}, err
	}
	job, err := sched.WithTag(jobs, tag)
	if err == nil {
		return job, nil
	}
	for _, j := range jobs { // one that the server did not describe is looked at again
		p.cache.others[[2]string{tag, j.ID}] = true
	}
	if older > 0 {
		return api.Job{}, sched.ErrIncomplete
	}
	return api.Job{}, err
}

// History reads the table of all jobs that the server keeps, which does not have the times
// at which they ended. qselect finds those that changed within the last day; if it cannot,
// the newest of the table are returned. A server without a history has no more than its list
// of jobs. The table cannot replace that list: it is cut, and what a list lacks has ended.
func (p scheduler) History(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	if p.cache.noHistory {
		return nil, nil
	}
	res, err := query(ctx, sh, "qstat", qstatTable+"out=$(table -x) || exit\n"+`first=$(($(printf '%s\n' "$out" | wc -l) - `+maxTable+`))
printf '%s\n' "$out" | awk -v first="$first" 'NR <= 10 || NR > first' # the headings, and the newest`)
	if err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(parseTable(string(res.Stdout), sh.Now()), func(j api.Job) bool { return !j.State.Ended() })
	if len(jobs) == 0 {
		return nil, nil
	}
	slices.SortFunc(jobs, func(a, b api.Job) int { return sched.CompareIDs(a.ID, b.ID) })
	since := sh.Now().Add(-sched.HistoryFor)
	ids, err := p.qselect(ctx, sh, "-x -tm.ge."+since.Format("200601021504"))
	if err != nil {
		return jobs[max(0, len(jobs)-newestEnded):], nil //nolint:nilerr // the table alone is an answer
	}
	return slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return p.Matches(api.Job{ID: id}, j.ID) })
	}), nil
}

const (
	maxTable    = "2000" // lines of a table of ended jobs
	newestEnded = 50     // how many of them are returned if their age is not known
)

// submitScript makes PBS write the output to its final place from the start (-k oed), unless
// the script or the arguments have -k. Torque and old versions of PBS refuse that before they
// submit anything, so that there is no job yet when it is left out.
const submitScript = `tunctl_keep='-k oed'
for tunctl_i; do case $tunctl_i in -k*) tunctl_keep=;; esac; done
if grep -Eq '^#PBS[[:space:]](.*[[:space:]])?-k' "$tunctl_script"; then tunctl_keep=; fi
{ tunctl_said=$(tunctl_limit qsub $tunctl_keep "$@" "$tunctl_script" 2>&1 >&3); } 3>&1
set -- $? "$@"
case $tunctl_keep$1$tunctl_said in
"-k oed0"*) ;;
"-k oed"*"illegal -k value"*) shift; tunctl_limit qsub "$@" "$tunctl_script"; exit ;;
esac
test -z "$tunctl_said" || printf '%s\n' "$tunctl_said" >&2
exit $1`

var qsubID = regexp.MustCompile(`^\d+(?:\[\d*\])?(?:\.\S+)?$`)

func (scheduler) ParseSubmit(res remote.Result) (string, error) {
	if m := sched.LastMatch(res.Stdout, qsubID); m != nil {
		return m[0], nil
	}
	return "", sched.SubmitError(res, doubt, refusals)
}

func (scheduler) Cancel(ctx context.Context, sh *remote.Shell, id string) error {
	res, err := query(ctx, sh, "qdel", "limit qdel "+posixsh.Quote(id))
	if res.Exit == 168 { // it is about to end already
		return nil
	}
	return err
}

func (scheduler) Extend(ctx context.Context, sh *remote.Shell, id string, limit time.Duration) error {
	_, err := query(ctx, sh, "qalter", "limit qalter -l walltime="+sched.ClockTime(limit)+" "+posixsh.Quote(id))
	return err
}

// Matches: the server's name may be missing on either side, and tasks match their array.
func (scheduler) Matches(job api.Job, id string) bool {
	jobNumber, jobServer, jobFull := strings.Cut(job.ID, ".")
	number, server, full := strings.Cut(id, ".")
	if full && jobFull && jobServer != server {
		return false
	}
	if jobNumber == number {
		return true
	}
	array, ok := strings.CutSuffix(number, "[]")
	return ok && strings.HasPrefix(jobNumber, array+"[")
}

// AsRequested completes a short id with the server's name.
func (scheduler) AsRequested(job api.Job, id string) api.Job {
	if !strings.HasPrefix(job.ID, id+".") {
		job.ID = id
	}
	return job
}

func (scheduler) TaskRef(job api.Job) string {
	if job.Task != "" {
		job.ID = strings.Replace(job.ID, "[]", "["+job.Task+"]", 1)
	}
	return job.ID
}

// historyOff is part of the hint of a job that ended on a server without a history.
const historyOff = "this PBS server keeps no job history, so it is not known how the job ended"

// ExplainGone: a job that was never seen running was deleted, or no queue accepted it. If the
// server has no history, only the time limit shows how a job ended.
func (p scheduler) ExplainGone(job *api.Job, ran bool) bool {
	noHistory := p.cache.noHistory
	over := !job.End.IsZero() && time.Until(job.End) < 0
	switch {
	case noHistory && ran && over:
		job.State = api.JobTimeout
		job.Hint = "the walltime was used up when the job left the queue; " + historyOff
	case noHistory && ran:
		job.State, job.End = api.JobFinished, time.Time{}
		job.Hint = "the job has left the queue; " + historyOff
	case noHistory:
		job.State = api.JobFinished
		job.Hint = "the job has left the queue and was never seen running; " + historyOff
	case !ran:
		job.State = api.JobNeverRan
		job.Hint = "PBS no longer knows the job: it was deleted, or " + notRouted
	default:
		return false
	}
	return true
}

// query runs a script in which program is the command that may fail.
func query(ctx context.Context, sh *remote.Shell, program, script string) (remote.Result, error) {
	res, err := sh.Login(ctx, remote.QueryPrelude+script)
	if err != nil {
		return remote.Result{}, err
	}
	return res, problem(program, res)
}

// problem is the error for a command's status and messages, nil for success. 153 is an
// unknown job, 35 one that has finished.
func problem(command string, res remote.Result) error {
	if res.Exit == 0 && strings.Contains(string(res.Stderr), "Unknown Job Id") {
		res.Exit = 153
	}
	err := sched.Failure(command, res, noAnswer, nil)
	if (res.Exit == 153 || res.Exit == 35) && !errors.Is(err, remote.ErrNoAnswer) {
		return sched.ErrNoJob
	}
	return err
}
