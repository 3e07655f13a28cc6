package jobwatch

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// pbsRecord is what qstat -f prints about one job, by attribute; its id is "Job Id".
type pbsRecord map[string]string

var pbsAttribute = regexp.MustCompile(`^( *)([A-Za-z_][A-Za-z0-9_.]*) = (.*)$`)

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
func splitQstat(out string) []pbsRecord { return splitAttributes(out, "Job Id") }

// splitAttributes reads records that begin with a line "kind: name".
func splitAttributes(out, kind string) []pbsRecord {
	var records []pbsRecord
	indented := strings.Contains(out, "\n    ") // a pasted answer may have lost that
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "\n\t", ""), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if id, ok := strings.CutPrefix(line, kind+": "); ok {
			records = append(records, pbsRecord{kind: strings.TrimSpace(id)})
			continue
		}
		m := pbsAttribute.FindStringSubmatch(line)
		if m == nil || len(records) == 0 || indented && m[1] == "" {
			continue
		}
		records[len(records)-1].set(m[2], m[3])
	}
	return records
}

// set keeps the first value of an attribute: a second one is part of another value.
func (r pbsRecord) set(name, value string) {
	if same, ok := torqueNames[name]; ok {
		name = same
		r["torque"] = "true"
	}
	if r[name] == "" {
		r[name] = strings.TrimRight(value, " ")
	}
}

func (r pbsRecord) job() api.Job {
	job := api.Job{
		ID:        r["Job Id"],
		Name:      r["Job_Name"],
		Queue:     r["queue"],
		Node:      pbsNode(r["exec_host"]),
		Nodes:     pbsNodes(r["exec_host"]),
		Reason:    r["comment"],
		Script:    r.absolute(r.script()),
		Submitted: parseTime(r["ctime"]),
	}
	if r["array_id"] != "" {
		job.Task = r["array_index"]
	}
	if n, err := strconv.Atoi(r["run_count"]); err == nil && n > 1 {
		job.Restarts = n - 1
	}
	r.setState(&job)
	r.setTimes(&job)
	return job
}

// qsubValued are the options of qsub, in PBS and Torque, that have a value.
const qsubValued = "aAbcCdDeFjJkKlmMNopPqrRStTuvWw"

// script is the path of the job's script: the last argument of qsub that is neither an option
// nor its value. It is empty if qsub read the script from standard input.
func (r pbsRecord) script() string {
	args := r["Submit_arguments"]
	if at := strings.LastIndex(args, "/"+tagRoot+"/"); at >= 0 {
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
func (r pbsRecord) absolute(p string) string {
	if p == "" {
		return ""
	}
	return absolutePath(r.workdir(), p)
}

// workdir is the folder the job was submitted from; Torque also has an attribute for it.
func (r pbsRecord) workdir() string {
	return cmp.Or(r.variable("PBS_O_WORKDIR"), r["init_work_dir"])
}

// variable is one of PBS's own variables, which come first in Variable_List. A comma within a
// value has a backslash before it.
func (r pbsRecord) variable(name string) string {
	list := strings.ReplaceAll(r["Variable_List"], `\,`, "\x00")
	for pair := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return strings.ReplaceAll(value, "\x00", ",")
		}
	}
	return ""
}

// variables are those of the job's script that PBS sets.
func (r pbsRecord) variables() map[string]string {
	home, user := r.variable("PBS_O_HOME"), r.variable("PBS_O_LOGNAME")
	return map[string]string{
		"PBS_JOBID": r["Job Id"], "PBS_JOBNAME": r["Job_Name"], "PBS_O_WORKDIR": r.workdir(),
		"HOME": home, "PBS_O_HOME": home, "USER": user, "LOGNAME": user, "PBS_O_LOGNAME": user,
	}
}

// setTimes sets the times. PBS reports when a job started and how long it may run.
func (r pbsRecord) setTimes(job *api.Job) {
	if job.State.Waiting() {
		job.ExpectedStart = parseTime(r["estimated.start_time"])
		if at := parseTime(r["Execution_Time"]); at.After(job.ExpectedStart) {
			job.ExpectedStart = at
		}
		job.Node = ""
		return
	}
	job.Start = parseTime(r["stime"])
	if used, counted := r["resources_used.walltime"]; counted && job.Start.IsZero() && job.State == api.JobRunning {
		job.Start = time.Now().UTC().Add(-parseClockTime(used)).Truncate(time.Minute) // of a server that does not wait for the node
	}
	switch limit := parseClockTime(r["Resource_List.walltime"]); {
	case job.State.Ended():
		job.End = parseTime(r["obittime"])
		if job.End.IsZero() {
			job.End = parseTime(r["mtime"])
		}
	case !job.Start.IsZero() && limit > 0:
		job.End = job.Start.Add(limit)
	}
}

// pbsNode is the first of x1000c0s2b0n0/0*8+x1000c0s2b1n0/0*8.
func pbsNode(hosts string) string {
	node, _, _ := strings.Cut(hosts, "/")
	return node
}

// pbsNodes are the nodes of a job that has several, without their slots.
func pbsNodes(hosts string) string {
	var nodes []string
	for vnode := range strings.SplitSeq(hosts, "+") {
		if node := pbsNode(vnode); !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return severalNodes(strings.Join(nodes, ","))
}

// pbsTask is the id of one task of an array.
var pbsTask = regexp.MustCompile(`^(\d+)\[\d+\](.*)$`)

func isArray(id string) bool {
	number, _, _ := strings.Cut(id, ".")
	return strings.HasSuffix(number, "[]")
}

// withoutArrays returns the records that match ids, and for an array with its tasks those
// that represent it. The record of a task does not have its script; the array's does.
func (p pbs) withoutArrays(records []pbsRecord, ids []string) []pbsRecord {
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
		requested := func(id string) bool { return p.matches(api.Job{ID: r["Job Id"]}, id) }
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
func (r pbsRecord) runningTasks(tasks []pbsRecord) []pbsRecord {
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
