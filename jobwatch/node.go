package jobwatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// OwnsProcess reports whether the server with that process id belongs to the job, and not to
// another job of the same user. It does if no other job runs on the node; otherwise the
// scheduler is queried for the job's processes, then the node for the job of the process.
// It is an error if neither knows.
func (w *Watcher) OwnsProcess(ctx context.Context, job api.Job, pid int) (bool, error) {
	jobs, err := w.Jobs(ctx)
	if err != nil {
		return false, err
	}
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return false, err
	}
	k := s.Kind()
	if k.JobVariables == nil {
		return true, nil
	}
	ref := s.TaskRef(job)
	others := slices.DeleteFunc(jobs, func(j api.Job) bool { return j.State != api.JobRunning || s.Matches(j, ref) })
	if len(others) == 0 {
		return true, nil
	}
	if err := w.host.turn.Lock(ctx); err != nil {
		return false, err
	}
	defer w.host.turn.Unlock()
	pids, err := s.Processes(ctx, w.host.sh, ref)
	if err != nil {
		w.host.Log.Debug("cannot list the processes of a job", "job", job.ID, "err", err)
	}
	if slices.Contains(pids, pid) {
		return true, nil
	}
	if !slices.ContainsFunc(others, func(j api.Job) bool { return api.SameNode(j.Node, job.Node) }) {
		return true, nil // in a container, process ids may differ
	}
	env, err := processEnviron(ctx, w.host.sh, job.Node, pid, k.JobVariables)
	if err != nil {
		return false, err
	}
	ids := slices.DeleteFunc(s.IDsIn(env), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return false, joblog.ErrOwnerUnknown
	}
	return slices.ContainsFunc(ids, func(id string) bool { return s.Matches(api.Job{ID: id, Cluster: job.Cluster}, ref) }), nil
}

// processEnviron reads, from the login node, some variables of a process on a compute node.
func processEnviron(ctx context.Context, sh *remote.Shell, node string, pid int, names []string) (map[string]string, error) {
	file := "/proc/" + strconv.Itoa(pid) + "/environ"
	res, err := sh.Login(ctx, remote.QueryPrelude+"limit ssh -n -o BatchMode=yes -o ConnectTimeout=10 -- "+posixsh.Quote(node)+" "+
		posixsh.Quote("tr '\\0' '\\n' <"+file+" | grep -E '^("+strings.Join(names, "|")+")='")+" 2>/dev/null")
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return env, nil
}

// NodeNames returns the other names of a compute node, and its addresses, as a host knows
// them: the name that the job uses may not resolve elsewhere.
func NodeNames(ctx context.Context, r remote.Runner, node string) ([]string, error) {
	// What is not installed prints nothing.
	script := "n=" + posixsh.Quote(node) + "\n" + `getent ahosts "$n" 2>/dev/null | awk '{print $1; if ($3) print $3}'` + "\n"
	for _, k := range schedulerKinds {
		script += k.NodeNames + "\n"
	}
	res, err := remote.On(r).Login(ctx, script+":")
	if err != nil {
		return nil, fmt.Errorf("names of node %q: %w", node, err)
	}
	var names []string
	for name := range strings.FieldsSeq(string(res.Stdout)) {
		if name != node && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// maxNodes is how many nodes of a job are listed.
const maxNodes = 10000

// Nodes are the names of a job's nodes, in the scheduler's order.
func Nodes(job api.Job) []string {
	return sched.ExpandNodes(cmp.Or(job.Nodes, job.Node), maxNodes)
}
