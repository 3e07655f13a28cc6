package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
)

// pbs is PBS Professional, OpenPBS or Torque. Each of its programs opens its own
// connection to the server, qstat -f once for every job that it is asked about, from one of the few
// hundred ports that the whole login node has for that: so it is asked sparingly.
type pbs struct{ learned *pbsLearned }

// pbsLearned is what was found out and need not be asked for again.
type pbsLearned struct {
	mu        sync.Mutex
	noHistory bool              // the server keeps no history, or -x means something else
	scripts   map[string]string // the lines of jobs' scripts that send output somewhere, by id
}

// pbsKind: Grid Engine has a qstat too, but sets SGE_ROOT and comes without qselect's PBS
// options.
var pbsKind = schedulerKind{
	name:      PBS,
	make:      func() scheduler { return newPBS() },
	installed: `has qsub qselect qstat && test -z "$SGE_ROOT"`,
	responds:  `qselect -u "$(id -un)"`,
	nodeNames: `pbsnodes -v "$n" 2>/dev/null | sed -n 's/^ *Mom = //p'`,
}

func newPBS() pbs { return pbs{learned: &pbsLearned{scripts: make(map[string]string)}} }

func (pbs) name() string { return PBS }

// terse: the table of all jobs says nothing of their files.
func (pbs) terse() bool { return true }

// qstatTable asks for all jobs of the person over one connection. Torque has no wide
// form and says so before it connects.
const qstatTable = `table() {
	limit qstat $1 -u "$(id -un)" -n -s -1 -w
	set -- $? $1
	if test $1 -eq 2; then limit qstat $2 -u "$(id -un)" -n -s -1; set -- $?; fi
	return $1
}
`

func (pbs) list(ctx context.Context, sh *shell) ([]api.Job, error) {
	res, err := sh.login(ctx, queryPrelude+qstatTable+"table")
	if err != nil {
		return nil, err
	}
	if err := pbsProblem("qstat", res); err != nil && !errors.Is(err, errNoJob) {
		return nil, err
	}
	jobs := parseTable(string(res.Stdout), time.Now().UTC())
	if len(jobs) == 0 && !emptyTable(string(res.Stdout)) {
		return nil, errQstat
	}
	return jobs, nil
}

// errQstat: to take such an answer for "no jobs" would have a second one submitted.
var errQstat = &api.Error{
	Code:    api.CodeFailed,
	Message: "qstat on the host does not print the table requested with -u",
	Hint:    "a wrapper replaces the qstat of PBS there: put the real one first in the PATH of your login shell",
}

// some asks for a few jobs, of which those that are not in the answer are gone.
func (p pbs) some(ctx context.Context, sh *shell, ids []string) ([]api.Job, error) {
	records, err := p.status(ctx, sh, ids)
	if err != nil && !errors.Is(err, errNoJob) {
		return nil, err
	}
	p.forgetScripts(records)
	records = p.serving(records, ids)
	jobs := jobsOf(records)
	for i := range jobs {
		p.setLog(ctx, sh, &jobs[i], records[i])
	}
	return jobs, nil
}

// detail also looks into the job's script for a redirection of its output, since PBS
// keeps standard output on the node until the job ends.
func (p pbs) detail(ctx context.Context, sh *shell, id string) (api.Job, error) {
	records, err := p.status(ctx, sh, []string{id})
	records = p.serving(records, []string{id})
	jobs := jobsOf(records)
	job, ok := pick(p, jobs, id)
	switch {
	case !ok && err != nil:
		return api.Job{}, err
	case !ok:
		return api.Job{}, errNoJob
	}
	i := slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == job.ID })
	p.setLog(ctx, sh, &job, records[i])
	return job, nil
}

// status is qstat -f of a few jobs, ended ones too. A server without a history, which
// is how OpenPBS comes, answers -x with success and nothing at all, also for a job that
// runs; Torque answers with XML. That is found out once.
func (p pbs) status(ctx context.Context, sh *shell, ids []string) ([]pbsRecord, error) {
	tasks := slices.ContainsFunc(ids, isArray)
	if len(ids) == 1 && pbsTask.MatchString(ids[0]) {
		ids = []string{ids[0], pbsTask.ReplaceAllString(ids[0], "$1[]$2")} // which has the script
	}
	history := !p.lacksHistory()
	records, res, err := p.qstat(ctx, sh, history, tasks, ids)
	if err != nil {
		return nil, err
	}
	switch {
	case history && len(records) == 0 && res.Exit == 0:
		history = false
	case !history && strings.Contains(string(res.Stderr), "use -x"):
		history = true // it has been switched on
	default:
		return records, pbsProblem("qstat", res)
	}
	p.learn(!history)
	if records, res, err = p.qstat(ctx, sh, history, tasks, ids); err != nil {
		return nil, err
	}
	return records, pbsProblem("qstat", res)
}

// pbsTask is the id of one task of an array.
var pbsTask = regexp.MustCompile(`^(\d+)\[\d+\](.*)$`)

// maxStatus bounds an answer: an array may have thousands of tasks of 2 KB each.
const maxStatus = "1048576"

func (pbs) qstat(ctx context.Context, sh *shell, history, tasks bool, ids []string) ([]pbsRecord, Result, error) {
	options := "-f "
	if history {
		options = "-x -f "
	}
	if tasks {
		options += "-t "
	}
	res, err := sh.login(ctx, queryPrelude+"out=$(limit qstat "+options+quoteAll(ids)+")\nset -- $?\nprintf '%s\\n' \"$out\" | head -c "+maxStatus+"\nexit $1")
	return splitQstat(string(res.Stdout)), res, err
}

func (p pbs) lacksHistory() bool {
	p.learned.mu.Lock()
	defer p.learned.mu.Unlock()
	return p.learned.noHistory
}

func (p pbs) learn(noHistory bool) {
	p.learned.mu.Lock()
	defer p.learned.mu.Unlock()
	p.learned.noHistory = noHistory
}

// forgetScripts drops what is known of the scripts of other jobs than those.
func (p pbs) forgetScripts(records []pbsRecord) {
	p.learned.mu.Lock()
	defer p.learned.mu.Unlock()
	maps.DeleteFunc(p.learned.scripts, func(id, _ string) bool {
		return !slices.ContainsFunc(records, func(r pbsRecord) bool { return r["Job Id"] == id })
	})
}

// serving leaves of an array and its tasks those that stand for it, and of other
// records those that were asked for. The record of a task says nothing of its script;
// the array's does.
func (p pbs) serving(records []pbsRecord, ids []string) []pbsRecord {
	arrays, tasks := map[string]pbsRecord{}, map[string][]pbsRecord{}
	for _, r := range records {
		arrays[r["Job Id"]] = r
	}
	for _, r := range records {
		if array := arrays[r["array_id"]]; array != nil {
			r["Submit_arguments"] = array["Submit_arguments"]
			tasks[r["array_id"]] = append(tasks[r["array_id"]], r)
		}
	}
	var kept []pbsRecord
	for _, r := range records {
		asked := func(id string) bool { return p.is(api.Job{ID: r["Job Id"]}, id) }
		wholeAsked := func(id string) bool { return isArray(id) && asked(id) }
		switch {
		case !slices.ContainsFunc(ids, asked):
		case len(tasks[r["Job Id"]]) > 0:
			kept = append(kept, r.activeTasks(tasks[r["Job Id"]])...)
		case arrays[r["array_id"]] == nil || !slices.ContainsFunc(ids, wholeAsked):
			kept = append(kept, r)
		}
	}
	return kept
}

// activeTasks are the tasks of an array that run, or else the array itself, which PBS
// calls begun also while nothing of it runs.
func (r pbsRecord) activeTasks(tasks []pbsRecord) []pbsRecord {
	var running []pbsRecord
	waits := false
	for _, task := range tasks {
		switch task["job_state"] {
		case "R", "S", "U":
			running = append(running, task)
		case "Q", "W", "H":
			waits = true
		}
	}
	switch {
	case len(running) > 0:
		return running
	case r["job_state"] == "B" && waits:
		r["job_state"] = "Q"
	case r["job_state"] == "B":
		r["job_state"] = "E"
	}
	return []pbsRecord{r}
}

func isArray(id string) bool {
	number, _, _ := strings.Cut(id, ".")
	return strings.HasSuffix(number, "[]")
}

// named are the jobs of a list that are called name. Where the list has only the
// beginning of a long name, the server says whose it is.
func (p pbs) named(ctx context.Context, sh *shell, jobs []api.Job, name string) ([]api.Job, error) {
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
	ids, err := p.qselect(ctx, sh, "-N "+quote(name))
	if err != nil {
		return nil, err
	}
	for _, job := range unsure {
		if slices.ContainsFunc(ids, func(id string) bool { return p.is(api.Job{ID: id}, job.ID) }) {
			sure = append(sure, job)
		}
	}
	return sure, nil
}

// qselect returns the ids of the person's jobs that answer to the options.
func (pbs) qselect(ctx context.Context, sh *shell, options string) ([]string, error) {
	res, err := sh.login(ctx, queryPrelude+`limit qselect -u "$(id -un)" `+options)
	if err != nil {
		return nil, err
	}
	if err := pbsProblem("qselect", res); err != nil {
		return nil, err
	}
	var ids []string
	for word := range strings.FieldsSeq(string(res.Stdout)) {
		if qsubID.MatchString(word) {
			ids = append(ids, word)
		}
	}
	return ids, nil
}

// tagged reads the id from what qsub answered. Where that was lost, it looks at the two
// newest of the jobs that were made since: at all of them would be a connection each.
func (p pbs) tagged(ctx context.Context, sh *shell, tag string) (api.Job, error) {
	dir := `"$HOME"/` + quote(tagRoot+"/"+tag)
	res, err := sh.login(ctx, queryPrelude+"cat "+dir+`/tunctl.out 2>/dev/null
printf '\n%s\n' tunctl.since
t=$(stat -c %Y `+dir+"/tunctl.lock 2>/dev/null || stat -f %m "+dir+`/tunctl.lock 2>/dev/null) || exit 0
t=$((t - 600)) # their clocks may differ
date -u -d "@$t" +%Y%m%d%H%M 2>/dev/null || date -u -r "$t" +%Y%m%d%H%M`)
	if err != nil {
		return api.Job{}, err
	}
	answered, since, _ := strings.Cut(string(res.Stdout), "tunctl.since\n")
	if id, err := p.verdict(answer{stdout: answered}); err == nil {
		return p.detail(ctx, sh, id)
	}
	since = strings.TrimSpace(since)
	if since == "" {
		return api.Job{}, errNoJob // nothing was submitted under this tag
	}
	return p.lookFor(ctx, sh, tag, since)
}

func (p pbs) lookFor(ctx context.Context, sh *shell, tag, since string) (api.Job, error) {
	ids, err := p.qselect(ctx, sh, "-tc.ge."+quote(since))
	if _, refused := errors.AsType[*api.Error](err); refused { // Torque cannot be asked so
		ids, err = p.qselect(ctx, sh, "")
	}
	if err != nil {
		return api.Job{}, err
	}
	slices.SortFunc(ids, compareIDs)
	if ids = ids[max(0, len(ids)-2):]; len(ids) == 0 {
		return api.Job{}, errNoJob
	}
	jobs, err := p.some(ctx, sh, ids)
	if err != nil {
		return api.Job{}, err
	}
	for _, job := range jobs {
		if hasTag(job, tag) {
			return job, nil
		}
	}
	return api.Job{}, errNoJob
}

// recorded asks which jobs changed within the last day, and for the table of all that
// the server keeps, which has their ends but not the times of them. Where qselect
// cannot tell, as with Torque, the newest of the table will do.
func (p pbs) recorded(ctx context.Context, sh *shell) ([]api.Job, error) {
	option := "-x"
	if p.lacksHistory() {
		option = ""
	}
	res, err := sh.login(ctx, queryPrelude+qstatTable+"out=$(table "+option+") || exit\n"+`first=$(($(printf '%s\n' "$out" | wc -l) - `+maxTable+`))
printf '%s\n' "$out" | awk -v first="$first" 'NR <= 10 || NR > first' # the headings, and the newest`)
	if err != nil {
		return nil, err
	}
	if err := pbsProblem("qstat", res); err != nil {
		return nil, err
	}
	jobs := parseTable(string(res.Stdout), time.Now().UTC())
	slices.SortFunc(jobs, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	since := time.Now().UTC().Add(-recently)
	ids, err := p.qselect(ctx, sh, option+" -tm.ge."+since.Format("200601021504"))
	if err != nil {
		return jobs[max(0, len(jobs)-newestEnded):], nil //nolint:nilerr // the table is an answer too
	}
	return slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return p.is(api.Job{ID: id}, j.ID) })
	}), nil
}

const (
	maxTable    = "2000" // lines of a table of ended jobs
	newestEnded = 50     // of which so many are shown where their age is not known
)

// submit has the output written where it belongs from the start (-k oed), unless the
// script or the person says otherwise.
func (pbs) submit() string {
	return `tunctl_keep='-k oed'
for tunctl_i; do case $tunctl_i in -k*|-o*) tunctl_keep=;; esac; done
if grep -Eq '^#PBS[[:space:]](.*[[:space:]])?-[ko]' "$tunctl_script"; then tunctl_keep=; fi
tunctl_limit qsub $tunctl_keep "$@" "$tunctl_script"`
}

var qsubID = regexp.MustCompile(`^\d+(?:\[\d*\])?(?:\.\S+)?$`)

func (pbs) verdict(a answer) (string, error) {
	if a.exit == 0 {
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		for i := range lines {
			if line := strings.TrimSpace(lines[len(lines)-1-i]); qsubID.MatchString(line) {
				return line, nil
			}
		}
		return "", errDoubt
	}
	if a.killed() || pbsDoubt.MatchString(a.stderr) {
		return "", errDoubt
	}
	return "", refusal(a, pbsRefusals)
}

var pbsSilent = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)

func (pbs) cancel(ctx context.Context, sh *shell, id string) error {
	res, err := sh.login(ctx, queryPrelude+"limit qdel "+quote(id))
	if err != nil {
		return err
	}
	// 168: it is on its way out already.
	if err := pbsProblem("qdel", res); err != nil && !errors.Is(err, errNoJob) && res.Exit != 168 {
		return err
	}
	return nil
}

func (pbs) extend(ctx context.Context, sh *shell, id string, limit time.Duration) error {
	res, err := sh.login(ctx, queryPrelude+"limit qalter -l walltime="+clockSpan(limit)+" "+quote(id))
	if err != nil {
		return err
	}
	return pbsProblem("qalter", res)
}

// is: the server's name may be left off on either side, and an array is its tasks too.
func (pbs) is(job api.Job, id string) bool {
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

// asRequested gives a short id its server's name.
func (pbs) asRequested(job api.Job, id string) api.Job {
	if !strings.HasPrefix(job.ID, id+".") {
		job.ID = id
	}
	return job
}

func (pbs) taskRef(job api.Job) string {
	if job.Task != "" {
		job.ID = strings.Replace(job.ID, "[]", "["+job.Task+"]", 1)
	}
	return job.ID
}

// processes: PBS does not tell.
func (pbs) processes(context.Context, *shell, string) ([]int, error) { return nil, nil }

func (pbs) jobsOfProcess(ctx context.Context, sh *shell, node string, pid int) ([]string, error) {
	env, err := processEnviron(ctx, sh, node, pid, "PBS_JOBID")
	return []string{env["PBS_JOBID"]}, err
}

// historyOff is said of a job that ended at a server that remembers none.
const historyOff = "this PBS server keeps no job history, so it is not known how the job ended"

// explainGone: a job that was never seen running was deleted, or no queue accepted it.
// Where the server forgets every job, only its time limit can tell anything.
func (p pbs) explainGone(job *api.Job, ran bool) bool {
	noHistory := p.lacksHistory()
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

// pbsProblem says what a command's status means, nil for success. 153 is an unknown
// job, 35 one that has finished.
func pbsProblem(command string, res Result) error {
	words := firstComplaint(res)
	switch {
	case res.Exit == 0 && !strings.Contains(string(res.Stderr), "Unknown Job Id"):
		return nil
	case res.Exit == 124 || pbsSilent.Match(res.Stderr):
		return fmt.Errorf("%w: %s", ErrNoAnswer, words)
	case res.Exit == 0, res.Exit == 153, res.Exit == 35:
		return errNoJob
	}
	return commandError(command, res.Exit, words)
}
