package jobwatch

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// pbsRecord is what qstat -f tells of one job, by attribute; its id is "Job Id".
type pbsRecord map[string]string

// parseQstat reads the answer of qstat -f.
func parseQstat(out string) []api.Job {
	return jobsOf(splitQstat(out))
}

func jobsOf(records []pbsRecord) []api.Job {
	jobs := make([]api.Job, len(records))
	for i, r := range records {
		jobs[i] = r.job()
	}
	return jobs
}

var pbsAttribute = regexp.MustCompile(`^( *)([A-Za-z_][A-Za-z0-9_.]*) = (.*)$`)

// torqueNames are the attributes that Torque calls otherwise.
var torqueNames = map[string]string{
	"start_time":   "stime",
	"comp_time":    "obittime",
	"exit_status":  "Exit_status",
	"submit_args":  "Submit_arguments",
	"submit_host":  "Submit_Host",
	"job_array_id": "array_index",
	"start_count":  "run_count",
}

// splitQstat joins the lines that qstat folds, anywhere in a word, and splits each
// into name and value. A value of Variable_List may contain line ends of its own;
// those lines belong to no attribute of interest and are dropped.
func splitQstat(out string) []pbsRecord {
	var records []pbsRecord
	indented := strings.Contains(out, "\n    ") // a copy of an answer may have lost that
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "\n\t", ""), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if id, ok := strings.CutPrefix(line, "Job Id: "); ok {
			records = append(records, pbsRecord{"Job Id": strings.TrimSpace(id)})
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

// set takes the first value of an attribute: a second one is part of a value.
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
		Reason:    r["comment"],
		Script:    r.absolute(r.script()),
		Submitted: pbsTime(r["ctime"]),
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

// setTimes fills in the times; PBS says when a job started and how long it may run.
func (r pbsRecord) setTimes(job *api.Job) {
	if job.State.Waiting() {
		job.ExpectedStart = pbsTime(r["estimated.start_time"])
		if at := pbsTime(r["Execution_Time"]); at.After(job.ExpectedStart) {
			job.ExpectedStart = at
		}
		job.Node = ""
		return
	}
	job.Start = pbsTime(r["stime"])
	switch limit := pbsDuration(r["Resource_List.walltime"]); {
	case job.State.Ended():
		job.End = pbsTime(r["obittime"])
		if job.End.IsZero() {
			job.End = pbsTime(r["mtime"])
		}
	case !job.Start.IsZero() && limit > 0:
		job.End = job.Start.Add(limit)
	}
}

// pbsTime reads what ctime(3) writes, in UTC.
func pbsTime(s string) time.Time {
	t, err := time.Parse(time.ANSIC, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// pbsDuration reads HH:MM:SS, where the hours may be many.
func pbsDuration(s string) time.Duration {
	var d time.Duration
	for part := range strings.SplitSeq(s, ":") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1e7 {
			return 0
		}
		d = d*60 + time.Duration(n)*time.Second
	}
	return d
}

// pbsNode is the first of x1000c0s2b0n0/0*8+x1000c0s2b1n0/0*8.
func pbsNode(hosts string) string {
	node, _, _ := strings.Cut(hosts, "/")
	return node
}
