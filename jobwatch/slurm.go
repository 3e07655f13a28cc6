package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// slurm is the Slurm workload manager, 20.02 or newer (for squeue --me).
type slurm struct {
	clusters *clusterSet // nil: the host's own only
}

func newSlurm() slurm { return slurm{clusters: &clusterSet{}} }

func (slurm) name() string { return Slurm }

// terse: squeue's word for a job's output is a pattern, and says nothing of what the
// job's script sends elsewhere.
func (slurm) terse() bool { return true }

// quiet is what precedes every query: words and times that do not depend on the
// person's settings, and a time limit on the far side too, so that a hung controller
// does not collect hanging clients on the login node. It is not for commands that
// submit, whose environment becomes the job's.
const quiet = `export LC_ALL=C TZ=UTC0 SLURM_TIME_FORMAT=%s
unset SQUEUE_FORMAT SQUEUE_FORMAT2 SQUEUE_SORT SQUEUE_STATES SQUEUE_PARTITION SQUEUE_USERS SQUEUE_ARRAY SQUEUE_NAMES
unset SQUEUE_ACCOUNT SQUEUE_QOS SQUEUE_LICENSES SQUEUE_ALL SQUEUE_ARRAY_UNIQUE SQUEUE_PRIORITY SQUEUE_SIBLING SACCT_FORMAT SCONTROL_ALL
limit() { if command -v timeout >/dev/null 2>&1; then timeout 25 "$@"; else command "$@"; fi; }
`

func (s slurm) list(ctx context.Context, sh *shell) ([]api.Job, error) {
	return s.squeue(ctx, sh, "--me")
}

// squeue asks the host's own cluster, or those that SLURM_CLUSTERS names there, and
// then each of the others that jobs were sent to. That one of these does not answer is
// no failure: its jobs are asked about one by one.
func (s slurm) squeue(ctx context.Context, sh *shell, which string) ([]api.Job, error) {
	command := "limit squeue " + which + " -h -O " + quote(squeueFormat())
	script := quiet + `test -z "$SLURM_CLUSTERS" || printf 'SLURM_CLUSTERS=%s\n' "$SLURM_CLUSTERS"` + "\n" + command + " || exit\n"
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
	res, err := sh.login(ctx, quiet+"limit scontrol "+onCluster(cluster)+"show job "+quote(asked))
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
	res, err := sh.login(ctx, quiet+"limit sacct -X -n -P "+which+" -o "+sacctFields)
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

// slurmDoubt are the failures after which the job may exist all the same: the
// request was sent, and the answer did not come. A controller that could not be
// connected to is not among them.
var slurmDoubt = regexp.MustCompile(`(?i)Socket timed out|Zero Bytes were transmitted|Transport endpoint is not connected|` +
	`Connection reset|Connection timed out|Unexpected message received|Message receive failure`)

// slurmSilent are the ways in which Slurm says that the controller does not answer.
var slurmSilent = regexp.MustCompile(`(?i)Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|` +
	`Transport endpoint|Connection refused|Connection timed out|Protocol authentication error|Munge encode failed|` +
	`Unable to process configuration file|establish a configuration source|Rate limit exceeded`)

func (slurm) cancel(ctx context.Context, sh *shell, ref string) error {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, quiet+"limit scancel "+onCluster(cluster)+quote(id))
	if err != nil {
		return err
	}
	if err := slurmProblem("scancel", res); err != nil && !errors.Is(err, errNoJob) {
		return err
	}
	return nil
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
