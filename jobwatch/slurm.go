package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// slurm is the Slurm workload manager, 20.02 or newer (for squeue --me).
type slurm struct {
	clusters *clusterSet // nil: the host's own only
}

var slurmKind = schedulerKind{
	name:      Slurm,
	make:      func() scheduler { return newSlurm() },
	installed: "has sbatch squeue",
	responds:  "squeue --me -h",
	nodeNames: `scontrol -o show node "$n" 2>/dev/null | tr ' ' '\n' | sed -n 's/^NodeAddr=//p; s/^NodeHostName=//p'`,
}

func newSlurm() slurm { return slurm{clusters: &clusterSet{}} }

func (slurm) name() string { return Slurm }

// terse: squeue's word for a job's output is a pattern, and says nothing of what the
// job's script sends elsewhere.
func (slurm) terse() bool { return true }

// slurmPrelude is queryPrelude, and drops what the person's settings do to Slurm's output.
const slurmPrelude = queryPrelude + `export SLURM_TIME_FORMAT=%s
unset SQUEUE_FORMAT SQUEUE_FORMAT2 SQUEUE_SORT SQUEUE_STATES SQUEUE_PARTITION SQUEUE_USERS SQUEUE_ARRAY SQUEUE_NAMES
unset SQUEUE_ACCOUNT SQUEUE_QOS SQUEUE_LICENSES SQUEUE_ALL SQUEUE_ARRAY_UNIQUE SQUEUE_PRIORITY SQUEUE_SIBLING SACCT_FORMAT SCONTROL_ALL
`

func (s slurm) list(ctx context.Context, sh *shell) ([]api.Job, error) {
	return s.squeue(ctx, sh, "--me")
}

// squeue asks the host's own cluster, or those that SLURM_CLUSTERS names there, and
// then each of the others that jobs were sent to. That one of these does not answer is
// no failure: its jobs are asked about one by one.
func (s slurm) squeue(ctx context.Context, sh *shell, which string) ([]api.Job, error) {
	command := "limit squeue " + which + " -h -O " + quote(squeueFormat())
	script := slurmPrelude + `test -z "$SLURM_CLUSTERS" || printf 'SLURM_CLUSTERS=%s\n' "$SLURM_CLUSTERS"` + "\n" + command + " || exit\n"
	for _, name := range s.clusters.all() {
		script += strings.Replace(command, "squeue ", "squeue "+onCluster(name), 1) + " 2>/dev/null\n"
	}
	res, err := sh.login(ctx, script+":")
	if err != nil {
		return nil, err
	}
	if err := slurmProblem("squeue", res); err != nil {
		return nil, err
	}
	jobs := parseSqueue(string(res.Stdout))
	if len(jobs) == 0 && squeueTable.Match(res.Stdout) {
		return nil, errTable
	}
	told := s.clusters.all()
	if m := defaultClusters.FindSubmatch(res.Stdout); m != nil {
		told = append(told, strings.Split(string(m[1]), ",")...)
	}
	return byCluster(jobs, told), nil
}

// defaultClusters is how we have the host print its SLURM_CLUSTERS.
var defaultClusters = regexp.MustCompile(`^SLURM_CLUSTERS=(.*)\n`)

// squeueTable is the head of the table that squeue prints without our columns.
var squeueTable = regexp.MustCompile(`(?m)^\s*JOBID\s`)

// errTable: to take such an answer for "no jobs" would have a second one submitted.
var errTable = &api.Error{
	Code:    api.CodeFailed,
	Message: "squeue on the host prints a table instead of the columns requested with -O",
	Hint:    "a wrapper replaces the squeue of Slurm there: put the real one first in the PATH of your login shell",
}

// byCluster leaves each job once, with its cluster if it is one of those that Slurm must
// be told: squeue names the host's own too.
func byCluster(jobs []api.Job, told []string) []api.Job {
	seen := map[string]bool{}
	kept := jobs[:0]
	for _, job := range jobs {
		if seen[job.Ref()] {
			continue
		}
		seen[job.Ref()] = true
		if !slices.Contains(told, job.Cluster) {
			job.Cluster = ""
		}
		kept = append(kept, job)
	}
	return kept
}

// detail asks the controller, which forgets ended jobs after a few minutes, and then
// the accounting, which a site may not have.
func (s slurm) detail(ctx context.Context, sh *shell, ref string) (api.Job, error) {
	id, cluster := splitRef(ref)
	s.clusters.add(cluster)
	asked, _, _ := strings.Cut(id, "_[") // the tasks that wait together have no name of their own
	res, err := sh.login(ctx, slurmPrelude+"limit scontrol "+onCluster(cluster)+"show job "+quote(asked))
	if err != nil {
		return api.Job{}, err
	}
	err = slurmProblem("scontrol", res)
	if err == nil {
		if job, ok := s.described(ctx, sh, splitScontrol(string(res.Stdout)), id); ok {
			job.Cluster = cluster
			return job, nil
		}
		err = errNoJob
	}
	if !errors.Is(err, errNoJob) {
		return api.Job{}, err
	}
	job, err := s.account(ctx, sh, onCluster(cluster)+"-j "+quote(asked), func(job api.Job) bool { return s.is(job, id) })
	job.Cluster = cluster
	return job, err
}

// described is the job of that id among scontrol's records, with the files that its
// script sends output to while that is of use.
func (s slurm) described(ctx context.Context, sh *shell, records []slurmRecord, id string) (api.Job, bool) {
	jobs := make([]api.Job, len(records))
	for i, r := range records {
		jobs[i] = r.job()
	}
	job, ok := pick(s, jobs, id)
	if !ok || job.State.Ended() {
		return job, ok
	}
	r := records[slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == job.ID })]
	script, lines := r.readScript(ctx, sh)
	job.Script = cmp.Or(script, job.Script)
	own, others := ownLogs(parseRedirections(lines, r.value), "SLURM_JOB")
	if own != "" {
		others = append([]string{own}, others...)
	}
	for _, file := range others {
		if file = inFolder(r["WorkDir"], file); file != job.Log && !slices.Contains(job.OtherLogs, file) {
			job.OtherLogs = append(job.OtherLogs, file)
		}
	}
	return job, true
}

// readScript finds the job's script on the host, and reads the lines of it that may
// send output somewhere.
func (r slurmRecord) readScript(ctx context.Context, sh *shell) (script, lines string) {
	paths := r.scripts()
	if len(paths) == 0 {
		return "", ""
	}
	res, err := sh.plain(ctx, "for f in "+quoteAll(paths)+`; do
	test -f "$f" || continue
	printf '%s\n' "$f"
	grep -E '>|tee ' < "$f" 2>/dev/null | head -c 16384
	break
done`)
	if err != nil {
		return "", ""
	}
	script, lines, _ = strings.Cut(string(res.Stdout), "\n")
	return script, lines
}

// account asks the accounting for an ended job. Whatever keeps it from answering,
// the controller has already said that the job is gone.
func (slurm) account(ctx context.Context, sh *shell, which string, match func(api.Job) bool) (api.Job, error) {
	res, err := sh.login(ctx, slurmPrelude+"limit sacct -X -n -P "+which+" -o "+sacctFields)
	if err != nil {
		return api.Job{}, err
	}
	if res.Exit != 0 {
		return api.Job{}, errNoJob
	}
	jobs := parseSacct(string(res.Stdout))
	for i := range jobs {
		// The newest record of an id is the last; one that seems to run although the
		// controller knows nothing of it is a left-over.
		if job := jobs[len(jobs)-1-i]; job.State.Ended() && match(job) {
			return job, nil
		}
	}
	return api.Job{}, errNoJob
}

// recorded asks the accounting, and where there is none the controller, which
// remembers ended jobs for a few minutes.
func (s slurm) recorded(ctx context.Context, sh *shell) ([]api.Job, error) {
	jobs, err := s.sacct(ctx, sh, "")
	if errors.Is(err, errNoAccounting) {
		return s.squeue(ctx, sh, "--me -t all")
	}
	for _, cluster := range s.clusters.all() {
		if err != nil {
			break
		}
		var others []api.Job
		if others, err = s.sacct(ctx, sh, cluster); errors.Is(err, errNoAccounting) {
			err = nil
		}
		jobs = slices.DeleteFunc(jobs, func(j api.Job) bool { // the host's own, by its name
			return slices.ContainsFunc(others, func(o api.Job) bool { return o.ID == j.ID && o.Submitted.Equal(j.Submitted) })
		})
		jobs = append(jobs, others...)
	}
	return jobs, err
}

// errNoAccounting means that sacct does not work.
var errNoAccounting = errors.New("sacct does not respond")

// sacct returns the person's jobs of the last day on one cluster.
func (slurm) sacct(ctx context.Context, sh *shell, cluster string) ([]api.Job, error) {
	res, err := sh.login(ctx, slurmPrelude+"out=$(limit sacct "+onCluster(cluster)+"-X -n -P -S now-1days -o "+sacctFields+") || exit\n"+
		`printf '%s\n' "$out" | tail -n `+maxListed)
	if err != nil {
		return nil, err
	}
	if res.Exit != 0 {
		return nil, errNoAccounting
	}
	jobs := parseSacct(string(res.Stdout))
	for i := range jobs {
		jobs[i].Cluster = cluster
	}
	return jobs, nil
}

// tagged also sees jobs that have just ended.
func (s slurm) tagged(ctx context.Context, sh *shell, tag string) (api.Job, error) {
	jobs, err := s.squeue(ctx, sh, "--me -t all")
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

func (slurm) submit() string { return `tunctl_limit sbatch --parsable "$@" "$tunctl_script"` }

// sbatchID is an answer of sbatch's, also of a wrapper that drops --parsable.
var sbatchID = regexp.MustCompile(`^(?:(\d+)(?:;(\S+))?|Submitted batch job (\d+)(?: on cluster (\S+))?)$`)

// verdict takes the last line that is an id: submit plugins like to print too.
func (s slurm) verdict(a answer) (string, error) {
	if a.exit == 0 {
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		for i := range lines {
			if m := sbatchID.FindStringSubmatch(strings.TrimSpace(lines[len(lines)-1-i])); m != nil {
				job := api.Job{ID: m[1] + m[3], Cluster: m[2] + m[4]}
				s.clusters.add(job.Cluster)
				return job.Ref(), nil
			}
		}
		return "", errDoubt
	}
	if slurmDoubt.MatchString(a.stderr) || a.killed() {
		return "", errDoubt
	}
	return "", refusal(a, slurmRefusals)
}

// slurmSilent are the ways in which Slurm says that the controller does not answer.
var slurmSilent = regexp.MustCompile(`(?i)Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|` +
	`Transport endpoint|Connection refused|Connection timed out|Protocol authentication error|Munge encode failed|` +
	`Unable to process configuration file|establish a configuration source|Rate limit exceeded`)

func (slurm) cancel(ctx context.Context, sh *shell, ref string) error {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, slurmPrelude+"limit scancel "+onCluster(cluster)+quote(id))
	if err != nil {
		return err
	}
	if err := slurmProblem("scancel", res); err != nil && !errors.Is(err, errNoJob) {
		return err
	}
	return nil
}

func (slurm) extend(ctx context.Context, sh *shell, ref string, limit time.Duration) error {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, slurmPrelude+"limit scontrol "+onCluster(cluster)+"update JobId="+quote(id)+" TimeLimit="+clockSpan(limit))
	if err != nil {
		return err
	}
	return slurmProblem("scontrol", res)
}

// is: an array 54 is its tasks 54_0, 54_1 and 54_[2-5] too, a heterogeneous job 64
// its parts 64+0 and 64+1.
func (slurm) is(job api.Job, ref string) bool {
	id, cluster := splitRef(ref)
	if cluster != "" && job.Cluster != cluster {
		return false
	}
	return job.ID == id || strings.HasPrefix(job.ID, id+"_") || strings.HasPrefix(job.ID, id+"+")
}

// whole is the array of a task, as in 54_1, or of the tasks that wait, 54_[2-5].
func (slurm) whole(id string) string {
	id, _, _ = strings.Cut(id, "_")
	return id
}

func (slurm) several(id string) bool { return strings.Contains(id, "_[") }

// processes asks each node's daemon for the processes of the job's steps.
func (slurm) processes(ctx context.Context, sh *shell, ref string) ([]int, error) {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, slurmPrelude+hereOnly(cluster)+"id="+quote(id)+`
case $id in *_*) id=$(limit squeue `+onCluster(cluster)+`-h -j "$id" -O JobID:) || exit ;; esac
limit sstat -a -i -n -P -j "$id"`)
	if err != nil {
		return nil, err
	}
	if err := slurmProblem("sstat", res); err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(res.Stdout)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		for text := range strings.SplitSeq(f[len(f)-1], ",") {
			if pid, err := strconv.Atoi(text); err == nil && len(f) == 3 {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// stepOutput attaches to the job's newest steps for a moment: their daemon keeps the
// last lines for whoever attaches. An end of sattach's input would be passed on to the
// person's program, so that its input is held open until after sattach was killed.
func (slurm) stepOutput(ctx context.Context, sh *shell, ref string) ([]byte, error) {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, slurmPrelude+`command -v sattach >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 127
`+hereOnly(cluster)+`steps=$(limit squeue `+onCluster(cluster)+`-h -s -j `+quote(id)+` -o %i) || exit
for step in $(printf '%s\n' "$steps" | grep -E '^[0-9_+]+\.[0-9]+$' | tail -n `+strconv.Itoa(stepsHeard)+`); do
	timeout -s KILL `+strconv.Itoa(stepSeconds+1)+` sh -c 'sleep 60 | timeout -s KILL `+strconv.Itoa(stepSeconds)+` sattach "$1" 2>/dev/null' sh "$step" 2>/dev/null
	echo
done 2>/dev/null | head -c `+strconv.Itoa(stepBytes))
	if err != nil {
		return nil, err
	}
	if res.Exit == 127 {
		return nil, ErrNoSteps
	}
	return res.Stdout, slurmProblem("squeue", res)
}

const (
	stepsHeard  = 2       // how many of a job's steps are listened to, the newest ones
	stepSeconds = 3       // for how long: what was printed before comes at once
	stepBytes   = 1 << 18 // how much is taken of what they printed
)

// asRequested: the task 54_1 answers to 54 too.
func (slurm) asRequested(job api.Job, id string) api.Job {
	if task, ok := strings.CutPrefix(job.ID, id+"_"); ok && job.Task == "" && strings.Trim(task, "0123456789") == "" {
		job.Task = task
	}
	job.ID = id
	return job
}

func (slurm) taskRef(job api.Job) string {
	if job.Task != "" {
		job.ID += "_" + job.Task
	}
	return job.Ref()
}

func (slurm) jobsOfProcess(ctx context.Context, sh *shell, node string, pid int) ([]string, error) {
	env, err := processEnviron(ctx, sh, node, pid, "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
	return []string{env["SLURM_JOB_ID"], taskID("", env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"])}, err
}

// slurmProblem says what a command's status and complaints mean, nil for success.
func slurmProblem(command string, res Result) error {
	words := firstComplaint(res)
	switch {
	case res.Exit == 0:
		return nil
	case res.Exit == 124 || slurmSilent.Match(res.Stderr):
		return fmt.Errorf("%w: %s", ErrNoAnswer, words)
	case strings.Contains(string(res.Stderr), "Invalid job id"):
		return errNoJob
	}
	return commandError(command, res.Exit, words)
}

// maxListed bounds a list of ended jobs.
const maxListed = "500"
