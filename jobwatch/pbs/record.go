package pbs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// record is what qstat -f prints about one job, by attribute; its id is "Job Id".
type record map[string]string

var attribute = regexp.MustCompile(`^( *)([A-Za-z_][A-Za-z0-9_.]*) = (.*)$`)

// torqueNames are the attributes with another name in Torque.
var torqueNames = map[string]string{
	"start_time":   "stime",
	"comp_time":    "obittime",
	"exit_status":  "Exit_status",
	"submit_args":  "Submit_arguments",
	"submit_host":  "Submit_Host",
	"job_array_id": "array_index",
	"start_count":  "run_count",
}

// splitQstat joins the lines that qstat folds, even within a word, and splits each into name
// and value. A value of Variable_List may contain line ends; the lines after them are
// dropped.
func splitQstat(out string) []record { return splitAttributes(out, "Job Id") }

// splitAttributes reads records that begin with a line "kind: name".
func splitAttributes(out, kind string) []record {
	var records []record
	indented := strings.Contains(out, "\n    ") // a pasted answer may have lost that
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "\n\t", ""), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if id, ok := strings.CutPrefix(line, kind+": "); ok {
			records = append(records, record{kind: strings.TrimSpace(id)})
			continue
		}
		m := attribute.FindStringSubmatch(line)
		if m == nil || len(records) == 0 || indented && m[1] == "" {
			continue
		}
		records[len(records)-1].set(m[2], m[3])
	}
	return records
}

// set keeps the first value of an attribute: a second one is part of another value.
func (r record) set(name, value string) {
	if same, ok := torqueNames[name]; ok {
		name = same
		r["torque"] = "true"
	}
	r[name] = cmp.Or(r[name], strings.TrimRight(value, " "))
}

func (r record) job() api.Job {
	job := api.Job{
		ID:        r["Job Id"],
		Name:      r["Job_Name"],
		Queue:     r["queue"],
		Node:      firstNode(r["exec_host"]),
		Nodes:     nodeList(r["exec_host"]),
		Reason:    r["comment"],
		Script:    r.absolute(r.script()),
		Submitted: sched.ParseTime(r["ctime"]),
		Restarts:  max(sched.Count(r["run_count"], 1)-1, 0),
		Limit:     int64(sched.ParseClockTime(r["Resource_List.walltime"]).Seconds()),
	}
	for _, name := range []string{"select", "nodes", "ncpus", "ngpus", "mem"} {
		if value := r["Resource_List."+name]; value != "" {
			job.Asks = strings.TrimPrefix(job.Asks+" "+name+"="+value, " ")
		}
	}
	if r["array_id"] != "" {
		job.Task = r["array_index"]
	}
	r.setState(&job)
	r.setTimes(&job)
	if job.State == api.JobOOM && r["Resource_List.vmem"] == "" {
		job.Memory = r.memory()
	}
	return job
}

// qsubValued are the options of qsub, in PBS and Torque, that have a value.
const qsubValued = "aAbcCdDeFjJkKlmMNopPqrRStTuvWw"

// script is the path of the job's script: the last argument of qsub that is neither an option
// nor its value. It is empty if qsub read the script from standard input.
func (r record) script() string {
	args := r["Submit_arguments"]
	if at := strings.LastIndex(args, "/"+remote.FolderName+"/"); at >= 0 {
		start := strings.LastIndexAny(args[:at], " \t") + 1
		return strings.TrimSpace(args[start:])
	}
	script, skip := "", false
	for _, word := range strings.Fields(args) {
		switch {
		case skip:
			skip = false
		case word == "--": // a command follows, no script
			return ""
		case word == "-": // standard input
		case strings.HasPrefix(word, "-"):
			skip = len(word) == 2 && strings.Contains(qsubValued, word[1:])
		case word != "<jsdl-hpcpa:Argument>":
			script = word
		}
	}
	return script
}

// absolute is a path, relative to the folder that the job was submitted from.
func (r record) absolute(p string) string {
	if p == "" {
		return ""
	}
	return sched.AbsolutePath(r.workdir(), p)
}

// workdir is the folder the job was submitted from; Torque also has an attribute for it.
func (r record) workdir() string {
	return cmp.Or(r.variable("PBS_O_WORKDIR"), r["init_work_dir"])
}

// variable is one of PBS's own variables, which come first in Variable_List. A comma within a
// value has a backslash before it.
func (r record) variable(name string) string {
	list := strings.ReplaceAll(r["Variable_List"], `\,`, "\x00")
	for pair := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return strings.ReplaceAll(value, "\x00", ",")
		}
	}
	return ""
}

// variables are those of the job's script that PBS sets.
func (r record) variables() map[string]string {
	home, user := r.variable("PBS_O_HOME"), r.variable("PBS_O_LOGNAME")
	return map[string]string{
		"PBS_JOBID": r["Job Id"], "PBS_JOBNAME": r["Job_Name"], "PBS_O_WORKDIR": r.workdir(),
		"HOME": home, "PBS_O_HOME": home, "USER": user, "LOGNAME": user, "PBS_O_LOGNAME": user,
	}
}

// setTimes sets the times. PBS reports when a job started and how long it may run.
func (r record) setTimes(job *api.Job) {
	if job.State.Waiting() {
		job.ExpectedStart = sched.ParseTime(r["estimated.start_time"])
		if at := sched.ParseTime(r["Execution_Time"]); at.After(job.ExpectedStart) {
			job.ExpectedStart = at
		}
		job.Node = ""
		return
	}
	job.Start = sched.ParseTime(r["stime"])
	if used, counted := r["resources_used.walltime"]; counted && job.Start.IsZero() && job.State == api.JobRunning {
		job.Start = time.Now().UTC().Add(-sched.ParseClockTime(used)).Truncate(time.Minute) // of a server that does not wait for the node
	}
	switch limit := sched.ParseClockTime(r["Resource_List.walltime"]); {
	case job.State.Ended():
		job.End = cmp.Or(sched.ParseTime(r["obittime"]), sched.ParseTime(r["mtime"]))
	case !job.Start.IsZero() && limit > 0:
		job.End = job.Start.Add(limit)
	}
}

// firstNode is the first of x1000c0s2b0n0/0*8+x1000c0s2b1n0/0*8.
func firstNode(hosts string) string {
	node, _, _ := strings.Cut(hosts, "/")
	return node
}

// nodeList are the nodes of a job that has several, without their slots.
func nodeList(hosts string) string {
	var nodes []string
	for vnode := range strings.SplitSeq(hosts, "+") {
		if node := firstNode(vnode); !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return sched.SeveralNodes(strings.Join(nodes, ","))
}

// taskID is the id of one task of an array.
var taskID = regexp.MustCompile(`^(\d+)\[\d+\](.*)$`)

func isArray(id string) bool {
	number, _, _ := strings.Cut(id, ".")
	return strings.HasSuffix(number, "[]")
}

// withoutArrays returns the records that match ids, and for an array with its tasks those
// that represent it. The record of a task does not have its script; the array's does.
func (p scheduler) withoutArrays(records []record, ids []string) []record {
	arrays, tasks := map[string]record{}, map[string][]record{}
	for _, r := range records {
		arrays[r["Job Id"]] = r
	}
	for _, r := range records {
		if array := arrays[r["array_id"]]; array != nil {
			r["Submit_arguments"] = array["Submit_arguments"]
			tasks[r["array_id"]] = append(tasks[r["array_id"]], r)
		}
	}
	var kept []record
	for _, r := range records {
		requested := func(id string) bool { return p.Matches(api.Job{ID: r["Job Id"]}, id) }
		arrayRequested := func(id string) bool { return isArray(id) && requested(id) }
		switch {
		case !slices.ContainsFunc(ids, requested):
		case len(tasks[r["Job Id"]]) > 0:
			kept = append(kept, r.runningTasks(tasks[r["Job Id"]])...)
		case arrays[r["array_id"]] == nil || !slices.ContainsFunc(ids, arrayRequested):
			kept = append(kept, r)
		}
	}
	return kept
}

// runningTasks are the tasks of an array that run. If there is none, it is the array itself,
// whose state PBS keeps as begun.
func (r record) runningTasks(tasks []record) []record {
	var running []record
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
	return []record{r}
}

// setLog finds the job's log: the file with the job's name or id to which the script
// redirects, else the job's standard output, once that can be read.
func (p scheduler) setLog(ctx context.Context, sh *remote.Shell, job *api.Job, r record) {
	own, others := sched.RedirectedLogs(p.redirections(ctx, sh, *job), r.workdir(), "PBS_JOB", r.variables())
	output, readable := r.output(*job)
	switch {
	case own != "":
		job.Log = own
		if readable {
			sched.AddLogs(job, output)
		}
	case readable:
		job.Log = output
	case job.Hint == "" && (job.State == api.JobQueued || job.State == api.JobRunning):
		job.Hint = api.HintSpooled
	}
	sched.AddLogs(job, others...)
}

// redirections are the lines of the job's script that redirect output. PBS runs the script as it
// was submitted, so it is read only once.
func (p scheduler) redirections(ctx context.Context, sh *remote.Shell, job api.Job) string {
	lines, known := p.cache.scripts[job.ID]
	if !known && job.Script != "" {
		var err error
		if _, lines, err = sched.ReadRedirections(ctx, sh, []string{job.Script}); err != nil {
			return ""
		}
		p.cache.scripts[job.ID] = lines
	}
	return lines
}

// output is the file of the job's standard output, and whether it can be read before the job
// ends.
func (r record) output(job api.Job) (file string, readable bool) {
	file = r["Output_Path"]
	if host, rest, ok := strings.Cut(file, ":"); ok && !strings.Contains(host, "/") {
		file = rest
	}
	file = strings.ReplaceAll(file, "^array_index^", r["array_index"])
	if file == "/dev/null" {
		return "", true
	}
	if strings.HasSuffix(file, "/") {
		file += r["Job Id"] + ".OU"
	}
	switch keep := r["Keep_Files"]; {
	case strings.Contains(keep, "d") || job.State.Ended():
		return file, true
	case strings.Contains(keep, "o"):
		// It is kept in the home folder, with PBS's default name.
		return path.Join(r.variable("PBS_O_HOME"), path.Base(file)), true
	}
	return file, false
}

// usage is what PBS has counted for a running job; its daemon on the node reports it about
// every two minutes.
func (r record) usage() (sched.Usage, bool) {
	cput, counted := r["resources_used.cput"]
	if !counted || r["job_state"] != "R" {
		return sched.Usage{}, false
	}
	u := sched.Usage{
		At: time.Now(), CPU: sched.ParseClockTime(cput), Elapsed: sched.ParseClockTime(r["resources_used.walltime"]),
		Memory: sched.ParseSize(r["resources_used.mem"]), MemoryLimit: sched.ParseSize(r["Resource_List.mem"]),
	}
	u.CPUs = cmp.Or(sched.Count(r["Resource_List.ncpus"], 0), sched.Count(r["resources_used.ncpus"], 0))
	return u, true
}

// keepUsage keeps what the jobs of an answer use.
func (p scheduler) keepUsage(records []record) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	maps.DeleteFunc(p.cache.usages, func(_ string, u sched.Usage) bool { return time.Since(u.At) > sched.UsageFor })
	for _, r := range slices.Backward(records) { // of an array's tasks, the first that runs represents it
		for _, id := range []string{r["Job Id"], r["array_id"]} {
			if u, ok := r.usage(); ok && id != "" {
				p.cache.usages[id] = u
			} else {
				delete(p.cache.usages, id)
			}
		}
	}
}

func (p scheduler) Usage(_ context.Context, _ *remote.Shell, id string, _ int) (sched.Usage, error) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	if u, ok := p.cache.usages[id]; ok {
		return u, nil
	}
	return sched.Usage{}, sched.ErrNoUsage
}

func (r record) setState(job *api.Job) {
	switch r["job_state"] {
	case "Q", "T", "W":
		job.State = api.JobQueued
		why := reasonFor(job.Reason)
		if r["job_state"] == "W" && job.Reason == "" {
			why = sched.Reason{Words: "the job has a start time that is not reached yet"}
		}
		job.Hint = why.Hint()
	case "H":
		job.State = api.JobHeld
		job.Hint = holdHint(r["Hold_Types"], r["depend"])
	case "R", "B", "M":
		job.State = api.JobRunning
		if isDying(job.Reason) {
			job.State = api.JobCompleting
		}
		job.Reason = ""
	case "S", "U":
		job.State = api.JobRunning
		job.Reason = api.ReasonSuspended
		job.Hint = sched.SuspendedHint
	case "E":
		job.State = api.JobCompleting
		job.Reason = ""
	case "F", "X", "C":
		r.setEnd(job)
		job.Reason = endReason(job.Reason)
	default:
		job.State = api.JobUnknown
	}
}

func holdHint(types, depend string) string {
	switch {
	case depend != "":
		return "waiting for another job to end"
	case types == "": // a table does not have them
		return "the job is held: release your own hold with qrls; otherwise it waits for another job, or the site holds it"
	case strings.Contains(types, "u"):
		return "held by you: release it with qrls"
	}
	return "held by an administrator or the scheduler: ask the site"
}

// isDying reports whether a job that still runs has been deleted: its comment says so at
// once, its state up to 18 seconds later.
func isDying(comment string) bool { return strings.Contains(comment, " and terminated by ") }

// endReason is the part of an ended job's comment about the end. PBS appends it to why the
// job waited or where it ran.
func endReason(comment string) string {
	for _, begins := range []string{"Not Running", "Can Never Run", "Job run at", "Job started on", "Job Array Began"} {
		if strings.HasPrefix(comment, begins) {
			if at := strings.LastIndex(comment, " and "); at >= 0 {
				return comment[at+len(" and "):]
			}
			return ""
		}
	}
	return comment
}

// setEnd reads Exit_status: a negative one is PBS's own, above 256 it is a signal. A finished
// job without one never ran, unless the record is from a table, which has none.
func (r record) setEnd(job *api.Job) {
	status, err := strconv.Atoi(r["Exit_status"])
	if err != nil {
		r.setEndWithoutStatus(job)
		return
	}
	if strings.Contains(job.Reason, dependencyLost) { // Torque gives such a job the status of a deleted one
		r.setNeverRan(job)
		return
	}
	if r["torque"] != "" {
		status = cmp.Or(torqueStatus[status], status)
	}
	failure, known := failures[status]
	switch {
	case status >= 0:
		r.setExit(job, status)
	case known:
		job.State, job.Hint = failure.state, failure.hint
	default:
		job.State = api.JobFailed
		if r.isDeleted() {
			job.State = api.JobCancelled
		}
		job.Hint = fmt.Sprintf("PBS could not start or finish the job (exit status %d): ask the site", status)
	}
}

// isDeleted reports whether PBS says that the job was deleted.
func (r record) isDeleted() bool { return r["substate"] == "91" || isDying(r["comment"]) }

// setExit sets the exit status, and what it means.
func (r record) setExit(job *api.Job, status int) {
	terminated := status == 256+15
	if status > 256 {
		status = 128 + status - 256
	}
	job.Exit = &status
	switch {
	case terminated && r.usedUp(): // some sites' servers only send the signal
		job.State, job.Hint = api.JobTimeout, walltimeOver
	case terminated || r.isDeleted():
		job.State = api.JobCancelled
	case status == 0:
		job.State = api.JobFinished
	default:
		job.State, job.Hint = api.JobFailed, sched.ExitHint(status)
	}
}

// failures are PBS's own statuses of a job that it ended.
var failures = map[int]struct {
	state api.JobState
	hint  string
}{
	-29: {api.JobTimeout, walltimeOver},
	-28: {api.JobTimeout, "the CPU time limit was reached"},
	-27: {api.JobOOM, "the job used more memory than it asked for: ask for more with mem="},
	-26: {api.JobOOM, "the job used more virtual memory than it asked for: ask for more with vmem="},
	-25: {api.JobFailed, "the job used more CPUs than it asked for"},
	-24: {api.JobFailed, "the job used more CPUs than it asked for"},
}

// torqueStatus are the numbers of PBS for Torque's.
var torqueStatus = map[int]int{-10: -27, -11: -29, -12: -28}

// setEndWithoutStatus finds in the comment how a job without an exit status ended.
func (r record) setEndWithoutStatus(job *api.Job) {
	ran := strings.HasPrefix(job.Reason, "Job run at") || strings.HasPrefix(job.Reason, "Job started on")
	switch end := endReason(job.Reason); {
	case r["job_state"] == "X":
		job.State = api.JobFinished
	case !ran:
		r.setNeverRan(job)
	case strings.HasPrefix(end, "terminated"):
		job.State = api.JobCancelled
	case strings.HasPrefix(end, "exceeded resource walltime"):
		job.State, job.Hint = api.JobTimeout, walltimeOver
	case strings.HasPrefix(end, "exceeded resource") && strings.Contains(end, "mem"):
		job.State = api.JobOOM
	case strings.HasPrefix(end, "exceeded") || end == "failed":
		job.State = api.JobFailed
	default:
		job.State = api.JobFinished
	}
}

// memory is how much each chunk of the job had or used.
func (r record) memory() int64 {
	chunks := sched.Count(r["Resource_List.nodect"], 1)
	return max(sched.ParseSize(r["Resource_List.mem"]), sched.ParseSize(r["resources_used.mem"])) / int64(max(chunks, 1))
}

func (r record) setNeverRan(job *api.Job) {
	job.State = api.JobNeverRan
	switch {
	case strings.Contains(job.Reason, dependencyLost):
		job.Hint = "the job that this job depends on did not end as required"
	case strings.Contains(job.Reason, "rejected by all"):
		job.Hint = notRouted
	case r["substate"] == "91" || strings.Contains(job.Reason, " and terminated"):
		job.State, job.Hint = api.JobCancelled, "the job was deleted before it ran"
	case r["depend"] != "":
		job.Hint = "the job that this job depends on did not end as required"
	case r["substate"] == "92" && job.Reason == "": // it ended in its routing queue
		job.Hint = notRouted
	default:
		job.Hint = "the job ended before it ran"
	}
}

const (
	dependencyLost = "can never be satisfied"

	walltimeOver = "the walltime was used up"
	notRouted    = "no queue accepts the job: ask for less time, memory, CPUs or GPUs, or choose another queue with -q; qstat -Qf shows the limits"
)

// usedUp reports whether the job ran for its whole walltime.
func (r record) usedUp() bool {
	limit, used := sched.ParseClockTime(r["Resource_List.walltime"]), sched.ParseClockTime(r["resources_used.walltime"])
	if start, end := sched.ParseTime(r["stime"]), sched.ParseTime(r["obittime"]); used == 0 && !start.IsZero() && !end.IsZero() {
		used = end.Sub(start)
	}
	return limit > 0 && used >= limit
}
