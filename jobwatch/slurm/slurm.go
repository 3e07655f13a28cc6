// Package slurm is the dialect of the Slurm workload manager: the commands that query, submit and
// cancel its jobs, and what they print. Only [Kind] is for others.
package slurm

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
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// scheduler is the Slurm workload manager, 20.02 or newer (for squeue --me).
type scheduler struct {
	sched.Basic
	clusters *sync.Map // the names of those besides the host's own that jobs were sent to
}

// Kind is that of Slurm.
var Kind = sched.Kind{
	Name:      "slurm",
	New:       func() sched.Scheduler { return newScheduler() },
	Installed: "has sbatch squeue",
	Responds:  "squeue --me -h",
	NodeNames: `scontrol -o show node "$n" 2>/dev/null | tr ' ' '\n' | sed -n 's/^NodeAddr=//p; s/^NodeHostName=//p'`,
	Submit:    `tunctl_limit sbatch --parsable "$@" "$tunctl_script"`,
	Unreached: `Unable to contact slurm controller \(connect failure\)`,
	HasSteps:  true, AsksStart: true,
	JobVariables: []string{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
	Discover:     discoverScript,
	Waiting:      waitingPart,
	Directives: sched.Directives{
		Prefix: "#SBATCH", Others: sched.LazyPattern(`(?m)^#(?:PBS|BSUB)`), OthersOff: "ignore-pbs",
		Long: map[string]string{
			"A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold", "J": "job-name",
			"L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec", "W": "wait",
			"a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "k": "no-kill",
			"m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time",
			"v": "verbose", "w": "nodelist", "x": "exclude",
		},
		Variables: sbatchVariables,
		Defaults:  `test -e "$HOME/.slurm/defaults"`, // of the plugin cli_filter/user_defaults
	},
	Program: "sbatch", JobName: "job-name", Options: options, LogOption: "output", OwnLog: ownLog,
	LogIn:   `--output="$tunctl_logs/%x.%j.log"`,
	LogHint: "write %j in --output of the script",
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

func newScheduler() scheduler {
	return scheduler{sched.Basic{TaskSeparator: "_", RangeMarks: "["}, &sync.Map{}}
}

func (scheduler) Kind() *sched.Kind { return &Kind }

func (scheduler) IDsIn(env map[string]string) []string {
	return []string{env["SLURM_JOB_ID"], taskID("", env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"])}
}

// prelude is QueryPrelude without the user's settings for Slurm's output.
const prelude = remote.QueryPrelude + `export SLURM_TIME_FORMAT=%s
unset SQUEUE_FORMAT SQUEUE_FORMAT2 SQUEUE_SORT SQUEUE_STATES SQUEUE_PARTITION SQUEUE_USERS SQUEUE_ARRAY SQUEUE_NAMES
unset SQUEUE_ACCOUNT SQUEUE_QOS SQUEUE_LICENSES SQUEUE_ALL SQUEUE_ARRAY_UNIQUE SQUEUE_PRIORITY SQUEUE_SIBLING SACCT_FORMAT SCONTROL_ALL
`

func (s scheduler) List(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	return s.squeue(ctx, sh, "--me")
}

// squeue queries the host's own cluster, or those in its SLURM_CLUSTERS, and then each other
// cluster that jobs were sent to. If one of these does not answer, that is not an error: its
// jobs are queried one by one.
func (s scheduler) squeue(ctx context.Context, sh *remote.Shell, which string) ([]api.Job, error) {
	command := "limit squeue " + which + " -h -O " + posixsh.Quote(squeueFormat)
	script := `test -z "$SLURM_CLUSTERS" || printf 'SLURM_CLUSTERS=%s\n' "$SLURM_CLUSTERS"` + "\n" + command + " || exit\n"
	for _, name := range s.otherClusters() {
		script += strings.Replace(command, "squeue ", "squeue "+onCluster(name), 1) + " 2>/dev/null\n"
	}
	res, err := query(ctx, sh, "squeue", script+":")
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
	seen := map[string]bool{} // clusters may list the same job
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		known := seen[j.Ref()]
		seen[j.Ref()] = true
		return known
	})
	for i := range jobs {
		if !slices.Contains(others, jobs[i].Cluster) { // squeue names the host's own too
			jobs[i].Cluster = ""
		}
	}
	return jobs, nil
}

// defaultClusters is the line in which our script prints the host's SLURM_CLUSTERS.
var defaultClusters = regexp.MustCompile(`^SLURM_CLUSTERS=(.*)\n`)

// squeueTable is the heading of the table that squeue prints without -O.
var squeueTable = regexp.MustCompile(`(?m)^\s*JOBID\s`)

// errSqueueTable: reading such an answer as "no jobs" would submit a second one.
var errSqueueTable = api.Errorf(api.CodeFailed, "squeue on the host prints a table instead of the columns requested with -O").
	WithHint("a wrapper replaces the squeue of Slurm there: put the real one first in the PATH of your login shell")

// Detail queries the controller, which forgets ended jobs after a few minutes, and then the
// accounting, which a site may not have.
func (s scheduler) Detail(ctx context.Context, sh *remote.Shell, ref string) (api.Job, error) {
	id, cluster := sched.SplitRef(ref)
	s.addCluster(cluster)
	single, _, _ := strings.Cut(id, "_[") // scontrol knows no range of tasks
	res, err := query(ctx, sh, "scontrol", "limit scontrol "+onCluster(cluster)+"show job "+posixsh.Quote(single))
	if err == nil {
		if job, ok := s.withScriptLogs(ctx, sh, splitScontrol(string(res.Stdout)), id); ok {
			job.Cluster = cluster
			return job, nil
		}
		err = sched.ErrNoJob
	}
	if !errors.Is(err, sched.ErrNoJob) {
		return api.Job{}, err
	}
	jobs, err := s.sacct(ctx, sh, cluster, "-j "+posixsh.Quote(single))
	for _, job := range slices.Backward(jobs) { // the last record of an id is the newest
		switch matches := s.Matches(job, ref); {
		case matches && job.State.Ended():
			return job, nil
		case matches && job.State == api.JobRunning && (job.End.IsZero() || job.End.After(sh.Now())): // else the record is outdated
			return api.Job{}, fmt.Errorf("%w: the controller does not know job %s, but it runs in the accounting", remote.ErrNoAnswer, ref)
		}
	}
	if err == nil || errors.Is(err, errNoAccounting) { // the controller has still said that the job is gone
		err = sched.ErrNoJob
	}
	return api.Job{}, err
}

// withScriptLogs is the job with that id in scontrol's records. Unless it has ended, it has
// the files to which its script redirects output.
func (s scheduler) withScriptLogs(ctx context.Context, sh *remote.Shell, records []record, id string) (api.Job, bool) {
	job, r, ok := sched.PickRecord(s, records, record.job, id)
	if !ok || job.State.Ended() {
		return job, ok
	}
	script, lines, _ := sched.ReadRedirections(ctx, sh, r.scripts())
	job.Script = cmp.Or(script, job.Script)
	own, others := sched.RedirectedLogs(lines, r["WorkDir"], "SLURM_JOB", r.variables())
	sched.AddLogs(&job, own)
	sched.AddLogs(&job, others...)
	return job, true
}

// History queries the accounting. Without one it queries the controller, which remembers
// ended jobs for a few minutes.
func (s scheduler) History(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	jobs, err := s.sacct(ctx, sh, "", lastDay)
	if errors.Is(err, errNoAccounting) {
		return s.squeue(ctx, sh, "--me -t all")
	}
	for _, cluster := range s.otherClusters() {
		others, e := s.sacct(ctx, sh, cluster, lastDay)
		if err != nil || e != nil && !errors.Is(e, errNoAccounting) {
			return nil, cmp.Or(err, e)
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
func (scheduler) sacct(ctx context.Context, sh *remote.Shell, cluster, which string) ([]api.Job, error) {
	res, err := sh.Login(ctx, prelude+"out=$(limit sacct "+onCluster(cluster)+"-X -n -P "+which+" -o "+sacctFields+") || exit\n"+
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

// FindTagged: -t all includes jobs that have just ended. The accounting knows earlier ones, only
// by the id in sbatch's answer.
func (s scheduler) FindTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error) {
	jobs, err := s.squeue(ctx, sh, "--me -t all")
	if err != nil {
		return api.Job{}, err
	}
	job, err := sched.WithTag(jobs, tag)
	if err == nil {
		return job, nil
	}
	answer, lost := sched.SubmitOutput(ctx, sh, tag)
	if lost != nil {
		return api.Job{}, lost
	}
	if id, e := s.ParseSubmit(answer); e == nil {
		return s.Detail(ctx, sh, id)
	}
	return api.Job{}, err
}

// sbatchSentence is the answer of sbatch to a wrapper that drops --parsable. It has precedence
// over sbatchID: a wrapper may print other numbers.
var (
	sbatchID       = regexp.MustCompile(`^(\d+)(?:;(\S+))?$`)
	sbatchSentence = regexp.MustCompile(`^Submitted batch job (\d+)(?: on cluster (\S+))?$`)
)

func (s scheduler) ParseSubmit(res remote.Result) (string, error) {
	m := sched.LastMatch(res.Stdout, sbatchSentence, sbatchID)
	if m == nil {
		return "", sched.SubmitError(res, doubt, refusals)
	}
	job := api.Job{ID: m[1], Cluster: m[2]}
	s.addCluster(job.Cluster)
	return job.Ref(), nil
}

func (scheduler) Cancel(ctx context.Context, sh *remote.Shell, ref string) error {
	id, cluster := sched.SplitRef(ref)
	_, err := query(ctx, sh, "scancel", "limit scancel "+onCluster(cluster)+posixsh.Quote(id))
	return err
}

func (scheduler) Extend(ctx context.Context, sh *remote.Shell, ref string, limit time.Duration) error {
	id, cluster := sched.SplitRef(ref)
	_, err := query(ctx, sh, "scontrol", "limit scontrol "+onCluster(cluster)+"update JobId="+posixsh.Quote(id)+" TimeLimit="+sched.ClockTime(limit))
	return err
}

// query runs a script in which program is the command that may fail.
func query(ctx context.Context, sh *remote.Shell, program, script string) (remote.Result, error) {
	res, err := sh.Login(ctx, prelude+script)
	if err != nil {
		return remote.Result{}, err
	}
	return res, problem(program, res)
}

var errOldSlurm = api.Errorf(api.CodeFailed, "the Slurm of the host is older than 20.02: its squeue does not know --me").
	WithHint("tunctl needs Slurm 20.02 or newer: ask the site, or forward a port that you know with `tunctl forward`")

// problem is the error for a command's status and messages, nil for success.
func problem(command string, res remote.Result) error {
	if strings.Contains(string(res.Stderr), "unrecognized option '--me'") {
		return errOldSlurm
	}
	return sched.Failure(command, res, noAnswer, noJob)
}

// Slurm may have several clusters: sbatch -M gpu, or SLURM_CLUSTERS in the user's
// environment, sends a job to another one, which has its own ids, controller and queue. In
// this package a job there has the name api.Job.Ref, "4711;gpu", as in sbatch's answer.

// onCluster is the option that sends a Slurm command to a cluster; empty for the host's own.
func onCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return "-M " + posixsh.Quote(cluster) + " "
}

// requireOwnCluster ends a script with status 127 unless cluster is the host's own: sattach
// and sstat cannot reach others.
func requireOwnCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return `test "$(limit scontrol show config | sed -n 's/^ClusterName *= *//p')" = ` + posixsh.Quote(cluster) + " || exit 127\n"
}

// addCluster makes queries include a cluster, and reports whether it is new.
func (s scheduler) addCluster(name string) bool {
	if name == "" || name == "all" {
		return false
	}
	_, known := s.clusters.LoadOrStore(name, true)
	return !known
}

func (s scheduler) AddClusters(args []string) (added bool) {
	for _, o := range Kind.Directives.Options(args) {
		if o.Name != "clusters" && o.Name != "cluster" {
			continue
		}
		for name := range strings.SplitSeq(o.Value, ",") {
			added = s.addCluster(strings.TrimSpace(name)) || added
		}
	}
	return added
}

// otherClusters are the clusters, besides the host's own, that jobs were sent to.
func (s scheduler) otherClusters() []string {
	var names []string
	for name := range s.clusters.Range {
		names = append(names, name.(string))
	}
	slices.Sort(names)
	return names
}

// testScript passes the job's script to sbatch --test-only. Where a wrapper drops that option, the job
// is submitted. Should its id come back, in either form of sbatch's answer, it is cancelled at once,
// also if the connection is lost meanwhile: without a reader, a write ends a process by SIGPIPE, which
// must not happen between the submission and its end. A file in our folder then has the line about it:
// the next test finds it there, and tests nothing, so that a lost answer is told later.
//
// Clusters may share a home, so the file has the name of the login nodes, without the number of
// this one.
const testScript = `tunctl_file=@FILE@.$(uname -n | tr -d 0-9)
if test -O "$tunctl_file" && test -s "$tunctl_file"; then cat "$tunctl_file"; exit; fi
trap '' HUP PIPE
cd @WORKDIR@ || exit
set -- @ARGS@
out=$( (trap - PIPE; @PRINT@) | limit sbatch --test-only --parsable "$@"); status=$?
set -- "$({
	printf '%s\n' "$out" | sed -n 's/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1\2/p'
	printf '%s\n' "$out" | sed -n 's/^Submitted batch job \([0-9][0-9]*\) on cluster \([^ ]*\).*$/\1;\2/p; s/^Submitted batch job \([0-9][0-9]*\).*$/\1/p'
} | tail -n 1)"
if test -n "$1"; then
	case $1 in *\;*) limit scancel -M "${1#*;}" "${1%%;*}" ;; *) limit scancel "$1" ;; esac
	set -- "@MARK@ $1 $?"
	(umask 077; mkdir -p "${tunctl_file%/*}"; test -O "${tunctl_file%/*}" && printf '%s\n' "$1" >"$tunctl_file")
	printf '\n%s\n' "$1"
fi
printf '%s\n' "$out"
exit $status`

// submittedMark begins the line about a job that a test submitted, and the name of the file that
// has it.
const submittedMark = "tunctl.submitted"

var (
	submittedLine = regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(submittedMark) + ` (\d[\w.;-]*) (\d+)$`)
	// startsAt is what sbatch --test-only writes to standard error.
	startsAt = regexp.MustCompile(`(?m)^(?:\S+: )?Job \d+ to start at (\S+)`)
)

// TestStart has sbatch test the job.
func (scheduler) TestStart(ctx context.Context, sh *remote.Shell, t sched.Trial) (sched.Start, error) {
	res, err := sh.Login(ctx, prelude+strings.NewReplacer(
		"@FILE@", sh.Folder()+"/"+submittedMark,
		"@WORKDIR@", t.Workdir,
		"@ARGS@", posixsh.Join(t.Args),
		"@PRINT@", t.PrintScript,
		"@MARK@", submittedMark,
	).Replace(testScript))
	if err != nil {
		return sched.Start{}, err
	}
	if m := submittedLine.FindSubmatch(res.Stdout); m != nil {
		return sched.Start{Submitted: string(m[1]), Cancelled: string(m[2]) == "0"}, nil
	}
	if res.Exit != 0 {
		if err := problem("sbatch", res); errors.Is(err, remote.ErrNoAnswer) {
			return sched.Start{}, err
		}
		return sched.Start{}, sched.RefusalError(res, refusals)
	}
	m := startsAt.FindSubmatch(res.Stderr)
	if m == nil {
		return sched.Start{Words: fmt.Sprintf("sbatch --test-only does not tell: %q", sched.LastErrorLine(res))}, nil
	}
	return sched.Start{At: sched.ParseTime(string(m[1]))}, nil
}

// Processes queries the daemon of each node for the processes of the job's steps.
func (scheduler) Processes(ctx context.Context, sh *remote.Shell, ref string) ([]int, error) {
	id, cluster := sched.SplitRef(ref)
	res, err := query(ctx, sh, "sstat", setJobID(id, cluster)+`limit sstat -a -i -n -P -j "$id"`)
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

// setJobID sets id to the number of a job that may be the task of an array. Only the host's own
// cluster is asked further.
func setJobID(id, cluster string) string {
	return requireOwnCluster(cluster) + "id=" + posixsh.Quote(id) + `
case $id in *_*) id=$(limit squeue ` + onCluster(cluster) + `-h -j "$id" -O JobID:) || exit ;; esac
`
}

// StepOutput attaches to the job's two newest steps for 3 seconds: their daemon keeps the last
// lines, which arrive at once. The program would see an end of sattach's input, so that is kept open until sattach
// was killed.
func (scheduler) StepOutput(ctx context.Context, sh *remote.Shell, ref string) ([]byte, error) {
	id, cluster := sched.SplitRef(ref)
	res, err := query(ctx, sh, "squeue", `command -v sattach >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 127
`+requireOwnCluster(cluster)+`steps=$(limit squeue `+onCluster(cluster)+`-h -s -j `+posixsh.Quote(id)+` -o %i) || exit
for step in $(printf '%s\n' "$steps" | grep -E '^[0-9_+]+\.[0-9]+$' | tail -n 2); do
	timeout -s KILL 4 sh -c 'sleep 60 | timeout -s KILL 3 sattach "$1" 2>/dev/null' sh "$step" 2>/dev/null
	echo
done 2>/dev/null | head -c 262144`)
	if res.Exit == 127 {
		return nil, sched.ErrNoSteps
	}
	return res.Stdout, err
}

// Usage adds up the job's steps. Slurm counts only where it gathers accounting.
func (scheduler) Usage(ctx context.Context, sh *remote.Shell, ref string, cpus int) (sched.Usage, error) {
	id, cluster := sched.SplitRef(ref)
	script := setJobID(id, cluster)
	if cpus == 0 {
		script += `limit squeue ` + onCluster(cluster) + `-h -j "$id" -o 'cpus|%C'` + "\n"
	}
	res, err := query(ctx, sh, "sstat", script+`limit sstat -a -n -P -o NTasks,AveCPU,AveRSS -j "$id"`)
	if err != nil {
		return sched.Usage{}, err
	}
	u, ok := parseSstat(string(res.Stdout))
	if !ok {
		return sched.Usage{}, sched.ErrNoUsage
	}
	u.At = time.Now()
	u.CPUs = cmp.Or(u.CPUs, cpus)
	return u, nil
}

// parseSstat adds up lines of tasks, time of CPUs and memory per task.
func parseSstat(out string) (u sched.Usage, ok bool) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) == 2 && f[0] == "cpus" {
			u.CPUs, _ = strconv.Atoi(f[1])
		}
		if len(f) != 3 {
			continue
		}
		tasks, err := strconv.Atoi(f[0])
		if err != nil || tasks < 1 || f[1] == "" {
			continue
		}
		ok = true
		u.CPU += time.Duration(tasks) * parseDuration(f[1])
		u.Memory += int64(tasks) * sched.ParseSize(f[2])
	}
	return u, ok
}
