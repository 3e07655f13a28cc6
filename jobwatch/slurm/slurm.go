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
	HasSteps:  true, AsksStart: true, AsksUsage: true,
	JobVariables: []string{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
	Discover:     discoverScript,
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

func newScheduler() scheduler { return scheduler{clusters: &sync.Map{}} }

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

// Matches: the tasks 54_0, 54_1 and 54_[2-5] match the array 54, and the parts 64+0 and 64+1
// the heterogeneous job 64.
func (scheduler) Matches(job api.Job, ref string) bool {
	id, cluster := sched.SplitRef(ref)
	if cluster != "" && job.Cluster != cluster {
		return false
	}
	return job.ID == id || strings.HasPrefix(job.ID, id+"_") || strings.HasPrefix(job.ID, id+"+")
}

// AsRequested makes 54_1 the task 1 of 54.
func (scheduler) AsRequested(job api.Job, id string) api.Job { return sched.AsTask(job, id, "_") }

// ArrayOf is 54 for the task 54_1 and for 54_[2-5].
func (scheduler) ArrayOf(id string) string {
	id, _, _ = strings.Cut(id, "_")
	return id
}

func (scheduler) IsTaskRange(id string) bool { return strings.Contains(id, "_[") }

func (scheduler) TaskRef(job api.Job) string {
	if job.Task != "" {
		job.ID += "_" + job.Task
	}
	return job.Ref()
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
	words := sched.LastErrorLine(res)
	switch {
	case res.Exit == 0:
		return nil
	case res.Exit == 124 || noAnswer.Match(res.Stderr):
		return fmt.Errorf("%w: %s", remote.ErrNoAnswer, words)
	case strings.Contains(string(res.Stderr), "Invalid job id"):
		return sched.ErrNoJob
	case strings.Contains(string(res.Stderr), "unrecognized option '--me'"):
		return errOldSlurm
	}
	return sched.CommandError(command, res.Exit, words)
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
	s.clusters.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names
}
