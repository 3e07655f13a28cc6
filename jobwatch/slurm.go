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
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// Slurm is its name in the config file.
const Slurm = "slurm"

// slurm is the Slurm workload manager, 20.02 or newer (for squeue --me).
type slurm struct {
	basic
	clusters *sync.Map // the names of those besides the host's own that jobs were sent to
}

var slurmKind = schedulerKind{
	name:      Slurm,
	make:      func() scheduler { return newSlurm() },
	installed: "has sbatch squeue",
	responds:  "squeue --me -h",
	nodeNames: `scontrol -o show node "$n" 2>/dev/null | tr ' ' '\n' | sed -n 's/^NodeAddr=//p; s/^NodeHostName=//p'`,
	submit:    `tunctl_limit sbatch --parsable "$@" "$tunctl_script"`,
	hasSteps:  true, asksStart: true, asksUsage: true,
	jobVariables: []string{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
	idsIn: func(env map[string]string) []string {
		return []string{env["SLURM_JOB_ID"], taskID("", env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"])}
	},
	look: slurmLook, readLook: readSlurmLook,
	directives: directiveSyntax{
		prefix: "#SBATCH",
		long: map[string]string{
			"A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold", "J": "job-name",
			"L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec", "W": "wait",
			"a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "k": "no-kill",
			"m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time",
			"v": "verbose", "w": "nodelist", "x": "exclude",
		},
		variables: sbatchVariables,
		defaults:  `test -e "$HOME/.slurm/defaults"`, // of the plugin cli_filter/user_defaults
	},
	program: "sbatch", jobName: "job-name", choices: slurmChoices, demand: slurmDemand, logOption: "output", ownLog: slurmOwnLog,
	logHint: "write %j in --output of the script",
}

// sbatchVariables are the variables that sbatch reads in place of an option.
func sbatchVariables(option string) []string {
	switch option {
	case "clusters":
		return []string{"SBATCH_CLUSTERS", "SLURM_CLUSTERS"}
	case "time":
		return []string{"SBATCH_TIMELIMIT"}
	}
	return []string{"SBATCH_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))}
}

func newSlurm() slurm { return slurm{clusters: &sync.Map{}} }

func (slurm) kind() *schedulerKind { return &slurmKind }

// slurmPrelude is queryPrelude without the person's settings for Slurm's output.
const slurmPrelude = queryPrelude + `export SLURM_TIME_FORMAT=%s
unset SQUEUE_FORMAT SQUEUE_FORMAT2 SQUEUE_SORT SQUEUE_STATES SQUEUE_PARTITION SQUEUE_USERS SQUEUE_ARRAY SQUEUE_NAMES
unset SQUEUE_ACCOUNT SQUEUE_QOS SQUEUE_LICENSES SQUEUE_ALL SQUEUE_ARRAY_UNIQUE SQUEUE_PRIORITY SQUEUE_SIBLING SACCT_FORMAT SCONTROL_ALL
`

func (s slurm) list(ctx context.Context, sh *shell) ([]api.Job, error) {
	return s.squeue(ctx, sh, "--me")
}

// squeue queries the host's own cluster, or those in its SLURM_CLUSTERS, and then each other
// cluster that jobs were sent to. If one of these does not answer, that is not an error: its
// jobs are queried one by one.
func (s slurm) squeue(ctx context.Context, sh *shell, which string) ([]api.Job, error) {
	command := "limit squeue " + which + " -h -O " + posixsh.Quote(squeueFormat())
	script := `test -z "$SLURM_CLUSTERS" || printf 'SLURM_CLUSTERS=%s\n' "$SLURM_CLUSTERS"` + "\n" + command + " || exit\n"
	for _, name := range s.otherClusters() {
		script += strings.Replace(command, "squeue ", "squeue "+onCluster(name), 1) + " 2>/dev/null\n"
	}
	res, err := slurmQuery(ctx, sh, "squeue", script+":")
	if err != nil {
		return nil, err
	}
	jobs := parseSqueue(string(res.Stdout))
	if len(jobs) == 0 && squeueTable.Match(res.Stdout) {
		return nil, errSqueueTable
	}
	others := s.otherClusters()
	if m := defaultClusters.FindSubmatch(res.Stdout); m != nil {
		others = append(others, strings.Split(string(m[1]), ",")...)
	}
	return uniqueByCluster(jobs, others), nil
}

// defaultClusters is the line in which our script prints the host's SLURM_CLUSTERS.
var defaultClusters = regexp.MustCompile(`^SLURM_CLUSTERS=(.*)\n`)

// squeueTable is the heading of the table that squeue prints without -O.
var squeueTable = regexp.MustCompile(`(?m)^\s*JOBID\s`)

// errSqueueTable: reading such an answer as "no jobs" would submit a second one.
var errSqueueTable = api.Errorf(api.CodeFailed, "squeue on the host prints a table instead of the columns requested with -O").
	WithHint("a wrapper replaces the squeue of Slurm there: put the real one first in the PATH of your login shell")

// uniqueByCluster removes repeated jobs, and the cluster of a job unless it is one of others:
// squeue names the host's own too.
func uniqueByCluster(jobs []api.Job, others []string) []api.Job {
	seen := map[string]bool{}
	kept := jobs[:0]
	for _, job := range jobs {
		if seen[job.Ref()] {
			continue
		}
		seen[job.Ref()] = true
		if !slices.Contains(others, job.Cluster) {
			job.Cluster = ""
		}
		kept = append(kept, job)
	}
	return kept
}

// detail queries the controller, which forgets ended jobs after a few minutes, and then the
// accounting, which a site may not have.
func (s slurm) detail(ctx context.Context, sh *shell, ref string) (api.Job, error) {
	id, cluster := splitRef(ref)
	s.addCluster(cluster)
	single, _, _ := strings.Cut(id, "_[") // scontrol knows no range of tasks
	res, err := slurmQuery(ctx, sh, "scontrol", "limit scontrol "+onCluster(cluster)+"show job "+posixsh.Quote(single))
	if err == nil {
		if job, ok := s.withScriptLogs(ctx, sh, splitScontrol(string(res.Stdout)), id); ok {
			job.Cluster = cluster
			return job, nil
		}
		err = errNoJob
	}
	if !errors.Is(err, errNoJob) {
		return api.Job{}, err
	}
	jobs, err := s.sacct(ctx, sh, cluster, "-j "+posixsh.Quote(single))
	// The last record of an id is the newest. One that seems to run, although the controller
	// does not know it, is outdated.
	for _, job := range slices.Backward(jobs) {
		if job.State.Ended() && s.matches(job, ref) {
			return job, nil
		}
	}
	if err == nil || errors.Is(err, errNoAccounting) { // the controller has still said that the job is gone
		err = errNoJob
	}
	return api.Job{}, err
}

// withScriptLogs is the job with that id in scontrol's records. Unless it has ended, it has
// the files to which its script redirects output.
func (s slurm) withScriptLogs(ctx context.Context, sh *shell, records []slurmRecord, id string) (api.Job, bool) {
	job, r, ok := pickRecord(s, records, id)
	if !ok || job.State.Ended() {
		return job, ok
	}
	script, lines, _ := readRedirections(ctx, sh, r.scripts())
	job.Script = cmp.Or(script, job.Script)
	own, others := redirectedLogs(lines, r["WorkDir"], "SLURM_JOB", r.variables())
	addLogs(&job, own)
	addLogs(&job, others...)
	return job, true
}

// history queries the accounting. Without one it queries the controller, which remembers
// ended jobs for a few minutes.
func (s slurm) history(ctx context.Context, sh *shell) ([]api.Job, error) {
	jobs, err := s.sacct(ctx, sh, "", lastDay)
	if errors.Is(err, errNoAccounting) {
		return s.squeue(ctx, sh, "--me -t all")
	}
	for _, cluster := range s.otherClusters() {
		if err != nil {
			break
		}
		var others []api.Job
		if others, err = s.sacct(ctx, sh, cluster, lastDay); errors.Is(err, errNoAccounting) {
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

const (
	lastDay   = "-S now-1days"
	maxListed = "500" // ended jobs
)

// sacct returns records of the accounting of one cluster.
func (slurm) sacct(ctx context.Context, sh *shell, cluster, which string) ([]api.Job, error) {
	res, err := sh.login(ctx, slurmPrelude+"out=$(limit sacct "+onCluster(cluster)+"-X -n -P "+which+" -o "+sacctFields+") || exit\n"+
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

// findTagged: -t all includes jobs that have just ended. The accounting knows earlier ones, only
// by the id in sbatch's answer.
func (s slurm) findTagged(ctx context.Context, sh *shell, tag string) (api.Job, error) {
	jobs, err := s.squeue(ctx, sh, "--me -t all")
	if err != nil {
		return api.Job{}, err
	}
	job, err := withTag(jobs, tag)
	if err == nil {
		return job, nil
	}
	answer, lost := sh.submitOutput(ctx, tag)
	if lost != nil {
		return api.Job{}, lost
	}
	if id, e := s.parseSubmit(answer); e == nil {
		return s.detail(ctx, sh, id)
	}
	return api.Job{}, err
}

// sbatchSentence is the answer of sbatch to a wrapper that drops --parsable. It has precedence
// over sbatchID: a wrapper may print other numbers.
var (
	sbatchID       = regexp.MustCompile(`^(\d+)(?:;(\S+))?$`)
	sbatchSentence = regexp.MustCompile(`^Submitted batch job (\d+)(?: on cluster (\S+))?$`)
)

func (s slurm) parseSubmit(res Result) (string, error) {
	if res.Exit != 0 {
		return "", submitFailure(res, slurmDoubt, slurmRefusals)
	}
	m := lastMatch(res.Stdout, sbatchSentence, sbatchID)
	if m == nil {
		return "", errDoubt
	}
	job := api.Job{ID: m[1], Cluster: m[2]}
	s.addCluster(job.Cluster)
	return job.Ref(), nil
}

func (slurm) cancel(ctx context.Context, sh *shell, ref string) error {
	id, cluster := splitRef(ref)
	_, err := slurmQuery(ctx, sh, "scancel", "limit scancel "+onCluster(cluster)+posixsh.Quote(id))
	return err
}

func (slurm) extend(ctx context.Context, sh *shell, ref string, limit time.Duration) error {
	id, cluster := splitRef(ref)
	_, err := slurmQuery(ctx, sh, "scontrol", "limit scontrol "+onCluster(cluster)+"update JobId="+posixsh.Quote(id)+" TimeLimit="+clockTime(limit))
	return err
}

// matches: the tasks 54_0, 54_1 and 54_[2-5] match the array 54, and the parts 64+0 and 64+1
// the heterogeneous job 64.
func (slurm) matches(job api.Job, ref string) bool {
	id, cluster := splitRef(ref)
	if cluster != "" && job.Cluster != cluster {
		return false
	}
	return job.ID == id || strings.HasPrefix(job.ID, id+"_") || strings.HasPrefix(job.ID, id+"+")
}

// asRequested makes 54_1 the task 1 of 54.
func (slurm) asRequested(job api.Job, id string) api.Job { return asTask(job, id, "_") }

// arrayOf is 54 for the task 54_1 and for 54_[2-5].
func (slurm) arrayOf(id string) string {
	id, _, _ = strings.Cut(id, "_")
	return id
}

func (slurm) isTaskRange(id string) bool { return strings.Contains(id, "_[") }

func (slurm) taskRef(job api.Job) string {
	if job.Task != "" {
		job.ID += "_" + job.Task
	}
	return job.Ref()
}

// processes queries the daemon of each node for the processes of the job's steps.
func (slurm) processes(ctx context.Context, sh *shell, ref string) ([]int, error) {
	id, cluster := splitRef(ref)
	res, err := slurmQuery(ctx, sh, "sstat", requireOwnCluster(cluster)+"id="+posixsh.Quote(id)+`
case $id in *_*) id=$(limit squeue `+onCluster(cluster)+`-h -j "$id" -O JobID:) || exit ;; esac
limit sstat -a -i -n -P -j "$id"`)
	if err != nil {
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

// stepOutput attaches to the job's newest steps for a moment: their daemon keeps the last
// lines. The program would see an end of sattach's input, so that is kept open until sattach
// was killed.
func (slurm) stepOutput(ctx context.Context, sh *shell, ref string) ([]byte, error) {
	id, cluster := splitRef(ref)
	res, err := slurmQuery(ctx, sh, "squeue", `command -v sattach >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 127
`+requireOwnCluster(cluster)+`steps=$(limit squeue `+onCluster(cluster)+`-h -s -j `+posixsh.Quote(id)+` -o %i) || exit
for step in $(printf '%s\n' "$steps" | grep -E '^[0-9_+]+\.[0-9]+$' | tail -n `+strconv.Itoa(maxSteps)+`); do
	timeout -s KILL `+strconv.Itoa(stepSeconds+1)+` sh -c 'sleep 60 | timeout -s KILL `+strconv.Itoa(stepSeconds)+` sattach "$1" 2>/dev/null' sh "$step" 2>/dev/null
	echo
done 2>/dev/null | head -c `+strconv.Itoa(stepBytes))
	if res.Exit == 127 {
		return nil, ErrNoSteps
	}
	return res.Stdout, err
}

const (
	maxSteps    = 2       // how many of a job's steps are read, the newest ones
	stepSeconds = 3       // for how long: earlier output arrives at once
	stepBytes   = 1 << 18 // how much of their output is read
)

// slurmQuery runs a script in which program is the command that may fail.
func slurmQuery(ctx context.Context, sh *shell, program, script string) (Result, error) {
	return sh.query(ctx, slurmPrelude+script, program, slurmProblem)
}

var errOldSlurm = api.Errorf(api.CodeFailed, "the Slurm of the host is older than 20.02: its squeue does not know --me").
	WithHint("tunctl needs Slurm 20.02 or newer: ask the site, or forward a port that you know with `tunctl forward`")

// slurmProblem is the error for a command's status and messages, nil for success.
func slurmProblem(command string, res Result) error {
	words := lastErrorLine(res)
	switch {
	case res.Exit == 0:
		return nil
	case res.Exit == 124 || slurmNoAnswer.Match(res.Stderr):
		return fmt.Errorf("%w: %s", ErrNoAnswer, words)
	case strings.Contains(string(res.Stderr), "Invalid job id"):
		return errNoJob
	case strings.Contains(string(res.Stderr), "unrecognized option '--me'"):
		return errOldSlurm
	}
	return commandError(command, res.Exit, words)
}
