package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// errOwnerUnknown means that a server may belong to any of several jobs.
var errOwnerUnknown = errors.New("several of your jobs run on this node, and tunctl cannot tell which one the server belongs to: " +
	"redirect the output of the job to a file (> FILE)")

// OwnsProcess reports whether the server with that process id belongs to the job, and not to
// another job of the same person. It does if no other job runs on the node; otherwise the
// scheduler is queried for the job's processes, then the node for the job of the process.
// It is an error if neither knows.
func (w *Watcher) OwnsProcess(ctx context.Context, job api.Job, pid int) (bool, error) {
	jobs, err := w.Jobs(ctx)
	if err != nil {
		return false, err
	}
	s, err := w.scheduler(ctx)
	if err != nil {
		return false, err
	}
	k := s.kind()
	if k.jobVariables == nil {
		return true, nil
	}
	ref := s.taskRef(job)
	others := slices.DeleteFunc(jobs, func(j api.Job) bool { return j.State != api.JobRunning || s.matches(j, ref) })
	if len(others) == 0 {
		return true, nil
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	pids, err := s.processes(ctx, w.sh, ref)
	if err != nil {
		w.log.Debug("cannot list the processes of a job", "job", job.ID, "err", err)
	}
	if slices.Contains(pids, pid) {
		return true, nil
	}
	if !slices.ContainsFunc(others, func(j api.Job) bool { return SameNode(j.Node, job.Node) }) {
		return true, nil // in a container, process ids may differ
	}
	env, err := processEnviron(ctx, w.sh, job.Node, pid, k.jobVariables)
	if err != nil {
		return false, err
	}
	ids := slices.DeleteFunc(k.idsIn(env), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return false, errOwnerUnknown
	}
	return slices.ContainsFunc(ids, func(id string) bool { return s.matches(api.Job{ID: id, Cluster: job.Cluster}, ref) }), nil
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

// SameNode compares two names of nodes without their domains.
func SameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}

// NodeNames returns the other names of a compute node, and its addresses, as a host knows
// them: the name that the job uses may not resolve elsewhere.
func NodeNames(ctx context.Context, r remote.Runner, node string) ([]string, error) {
	// What is not installed prints nothing.
	script := "n=" + posixsh.Quote(node) + "\n" + `getent ahosts "$n" 2>/dev/null | awk '{print $1; if ($3) print $3}'` + "\n"
	for _, k := range schedulerKinds {
		script += k.nodeNames + "\n"
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
	switch {
	case job.Nodes != "":
		return expandNodes(job.Nodes, maxNodes)
	case job.Node != "":
		return []string{job.Node}
	}
	return nil
}

// severalNodes is a list of nodes, "" if it has but one.
func severalNodes(list string) string {
	list = slurmValue(list)
	if strings.ContainsAny(list, ",[") {
		return list
	}
	return ""
}

// expandNodes expands Slurm's notation for nodes, to at most that many: cn[01-02,07],gpu[1-2]n[0-1],login.
func expandNodes(list string, most int) []string {
	names := []string{""}
	var all []string
	for list != "" && len(all)+len(names) <= most {
		switch list[0] {
		case ',':
			all, names, list = append(all, names...), []string{""}, list[1:]
		case '[':
			inside, rest, _ := strings.Cut(list[1:], "]")
			names, list = product(names, expandRanges(inside, most), most), rest
		default:
			end := strings.IndexAny(list, ",[")
			if end < 0 {
				end = len(list)
			}
			names, list = product(names, []string{list[:end]}, most), list[end:]
		}
	}
	all = append(all, names...)
	return all[:min(len(all), most)]
}

// product appends each end to each name.
func product(names, ends []string, most int) []string {
	var list []string
	for _, name := range names {
		for _, end := range ends {
			if len(list) == most {
				return list
			}
			list = append(list, name+end)
		}
	}
	return list
}

// expandRanges expands 01-03,07; the numbers are as wide as the first is written.
func expandRanges(text string, most int) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if !isRange || err1 != nil || err2 != nil {
			list = append(list, part)
			continue
		}
		for i := from; i <= to && len(list) < most; i++ {
			list = append(list, fmt.Sprintf("%0*d", len(first), i))
		}
	}
	return list
}
