package jobwatch

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// processLister is a scheduler that can tell the processes of a running job.
type processLister interface {
	processes(ctx context.Context, sh *shell, ref string) ([]int, error)
}

// ErrOwnerUnknown means that it cannot be told to which of several jobs a server belongs.
var ErrOwnerUnknown = errors.New("several of your jobs run on this node, and tunctl cannot tell which one the server belongs to: " +
	"let the job write a log (sbatch -o, or > FILE)")

// OwnsProcess reports whether a server that says to have a process id is the job's, and
// not another job's of the same person. Where no other job runs on its node that goes
// without saying; else the scheduler is asked for the job's processes, or the node for
// the job of the process. Where neither can tell, it is ErrOwnerUnknown.
func (w *Watcher) OwnsProcess(ctx context.Context, job api.Job, pid int) (bool, error) {
	jobs, err := w.Jobs(ctx)
	if err != nil {
		return false, err
	}
	s, err := w.scheduler(ctx)
	if err != nil {
		return false, err
	}
	others := slices.DeleteFunc(jobs, func(j api.Job) bool { return j.State != api.JobRunning || s.is(j, taskRef(job)) })
	if len(others) == 0 || s.name() == None {
		return true, nil
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if lister, ok := s.(processLister); ok {
		pids, err := lister.processes(ctx, w.sh, taskRef(job))
		if err != nil {
			w.log.Debug("cannot list the processes of a job", "job", job.ID, "err", err)
		}
		if slices.Contains(pids, pid) {
			return true, nil
		}
	}
	if !slices.ContainsFunc(others, func(j api.Job) bool { return SameNode(j.Node, job.Node) }) {
		return true, nil // a container may number its processes itself
	}
	owner, err := w.jobOfProcess(ctx, job.Node, pid)
	if err != nil {
		return false, err
	}
	if len(owner) == 0 {
		return false, ErrOwnerUnknown
	}
	return slices.ContainsFunc(owner, func(id string) bool { return s.is(api.Job{ID: id, Cluster: job.Cluster}, taskRef(job)) }), nil
}

// taskRef names the task of an array that the job is about.
func taskRef(job api.Job) string {
	array, server, isPBS := strings.Cut(job.ID, "[]")
	switch {
	case job.Task == "":
	case isPBS:
		job.ID = array + "[" + job.Task + "]" + server
	default:
		job.ID += "_" + job.Task
	}
	return job.Ref()
}

// jobOfProcess asks the node, from the login node, under which ids the scheduler started
// a process there: its environment has them.
func (w *Watcher) jobOfProcess(ctx context.Context, node string, pid int) ([]string, error) {
	file := "/proc/" + strconv.Itoa(pid) + "/environ"
	res, err := w.sh.login(ctx, quiet+"limit ssh -n -o BatchMode=yes -o ConnectTimeout=10 -- "+quote(node)+" "+
		quote("tr '\\0' '\\n' <"+file+" | grep -E '^(SLURM_JOB_ID|SLURM_ARRAY_JOB_ID|SLURM_ARRAY_TASK_ID|PBS_JOBID)='")+" 2>/dev/null")
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	var ids []string
	for _, id := range []string{env["SLURM_JOB_ID"], env["PBS_JOBID"], taskID("", env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"])} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// processes asks each node's daemon for the processes of the job's steps.
func (slurm) processes(ctx context.Context, sh *shell, ref string) ([]int, error) {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, quiet+hereOnly(cluster)+"id="+quote(id)+`
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

// SameNode reports whether two names are one node's, short or with its domain.
func SameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}
