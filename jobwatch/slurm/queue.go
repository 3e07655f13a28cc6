package slurm

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// Job names may contain anything that the user can type, so squeue's fields end in control
// characters.
const (
	fieldEnd  = "\x1f"
	recordEnd = "\x1e\n"
)

// squeueFields are the columns of a query, in the order of squeueJob. All are older than any
// Slurm in use; one unknown name would fail the whole query.
var squeueFields = []string{
	"JobID", "ArrayJobID", "ArrayTaskID", "State", "Partition", "NodeList",
	"SubmitTime", "StartTime", "EndTime", "RestartCnt", "Reason", "Command",
	"StdOut", "BatchFlag", "UserName", "BatchHost", "Cluster", "Name",
}

// squeueFormat is the argument of -O; an empty width means no padding and no cutting.
var squeueFormat = strings.Join(squeueFields, ":"+fieldEnd+",") + ":" + strings.TrimSuffix(recordEnd, "\n")

func parseSqueue(out string) []api.Job {
	jobs := make([]api.Job, 0, strings.Count(out, recordEnd)) // growing would cost more than reading
	for record := range strings.SplitSeq(out, recordEnd) {
		fields := strings.SplitN(record, fieldEnd, len(squeueFields))
		if len(fields) == len(squeueFields) {
			jobs = append(jobs, squeueJob(fields))
		}
	}
	return jobs
}

func squeueJob(f []string) api.Job {
	// A line of the site, or "CLUSTER: name", may precede a record.
	id := f[0][strings.LastIndexByte(f[0], '\n')+1:]
	job := api.Job{
		ID:      taskID(id, f[1], f[2]),
		Queue:   f[4],
		Node:    batchNode(f[15], f[5]),
		Nodes:   sched.SeveralNodes(f[5]),
		Reason:  known(f[10]),
		Script:  known(f[11]),
		Cluster: known(f[16]),
		Name:    strings.TrimRight(f[17], " "),
	}
	job.Restarts, _ = strconv.Atoi(f[9])
	setState(&job, f[3])
	setTimes(&job, f[6], f[7], f[8])
	job.Log = listedLog(job, id, f)
	return job
}

// listedLog is the job's output file according to squeue, empty if that is not certain.
// Squeue prints the pattern that sbatch got; for a job without a script, the default; for an
// array's task, the name without the array.
func listedLog(job api.Job, id string, f []string) string {
	pattern := logFile(f[12])
	if strings.TrimSpace(f[13]) == "0" || strings.Contains(pattern, `\`) {
		return ""
	}
	array, task, isTask := strings.Cut(job.ID, "_")
	if isTask {
		if folder, ok := strings.CutSuffix(pattern, "/slurm-"+id+".out"); ok {
			pattern = folder + "/slurm-%A_%a.out"
		}
	}
	if _, err := strconv.Atoi(task); err != nil {
		task = ""
	}
	return filePattern{id: id, array: array, task: task, node: job.Node, user: f[14], name: job.Name}.expand(pattern)
}

// filePattern has the values of %j and the like in a file name; empty ones are not known.
type filePattern struct {
	id, array, task, node, user, name string
	expanded                          bool // by the controller: other letters are part of the name
}

func (p filePattern) value(letter string) string {
	node, _, _ := strings.Cut(p.node, ".")
	value, known := map[string]string{
		"j": p.id, "J": p.id, "A": p.array, "a": p.task, "N": node, "t": "0", "n": "0", "s": "batch", "u": p.user, "x": p.name,
	}[letter]
	if !known && p.expanded {
		return "%" + letter
	}
	return value
}

// placeholder matches %j and the like, also with a width as in %5j.
var placeholder = regexp.MustCompile(`%(?:%|([0-9]*)(.?))`)

// expand replaces the placeholders. The result is empty if a value is not known.
func (p filePattern) expand(pattern string) string {
	known := true
	file := placeholder.ReplaceAllStringFunc(pattern, func(found string) string {
		if found == "%%" {
			return "%"
		}
		m := placeholder.FindStringSubmatch(found)
		text := p.value(m[2])
		known = known && m[2] != "" && text != ""
		width, _ := strconv.Atoi(m[1])
		if n, err := strconv.Atoi(text); err == nil && width > 0 {
			text = fmt.Sprintf("%0*d", min(width, 10), n)
		}
		return text
	})
	if !known {
		return ""
	}
	return file
}

// taskID is the id as people write it: 54, 54_1, or 54_[2-5%2] for the tasks of an array that
// still wait together.
func taskID(id, array, task string) string {
	if array == "" || task == "" || task == "N/A" || array == "N/A" {
		return id
	}
	if strings.Trim(task, "0123456789") != "" {
		task = "[" + task + "]"
	}
	return array + "_" + task
}

// batchNode is the node of the batch script: the one that Slurm names, or the first.
func batchNode(host, list string) string {
	return cmp.Or(known(host), firstNode(list))
}

// firstNode is the first node of a list such as cn[01-02],gpu7.
func firstNode(list string) string { return strings.Join(sched.ExpandNodes(known(list), 1), "") }

// known is a trimmed value, empty for each of Slurm's words for nothing.
func known(s string) string {
	switch s = strings.TrimSpace(s); s {
	case "None", "(null)", "N/A", "n/a", "None assigned", "Unknown", "NONE":
		return ""
	}
	return s
}

// sacctFields are known to every version. The name is last, since it may contain the
// delimiter.
const sacctFields = "JobID,State,ExitCode,Submit,Start,End,NodeList,Partition,AllocTRES,TimelimitRaw,JobName"

// parseSacct reads the output of sacct -X -n -P. The last record of a job is its last run.
func parseSacct(out string) []api.Job {
	var jobs []api.Job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 11)
		if len(f) != 11 {
			continue
		}
		job := api.Job{ID: f[0], Node: firstNode(f[6]), Queue: f[7], Name: f[10]}
		setState(&job, f[1])
		setTimes(&job, f[3], f[4], f[5])
		setExit(&job, f[2])
		setMemory(&job, f[8])
		if limit, err := strconv.Atoi(f[9]); err == nil && job.State == api.JobRunning {
			job.End = job.Start.Add(time.Duration(limit) * time.Minute)
		}
		jobs = append(jobs, job)
	}
	return jobs
}
