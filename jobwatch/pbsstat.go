package jobwatch

import (
	"fmt"
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

var pbsAttribute = regexp.MustCompile(`^    ([A-Za-z_][A-Za-z0-9_.]*) = (.*)$`)

// splitQstat joins the lines that qstat folds, anywhere in a word, and splits each
// into name and value. A value of Variable_List may contain line ends of its own;
// those lines belong to no attribute of interest and are dropped.
func splitQstat(out string) []pbsRecord {
	var records []pbsRecord
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "\n\t", ""), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if id, ok := strings.CutPrefix(line, "Job Id: "); ok {
			records = append(records, pbsRecord{"Job Id": strings.TrimSpace(id)})
			continue
		}
		m := pbsAttribute.FindStringSubmatch(line)
		if m == nil || len(records) == 0 {
			continue
		}
		if r := records[len(records)-1]; r[m[1]] == "" {
			r[m[1]] = m[2]
		}
	}
	return records
}

func (r pbsRecord) job() api.Job {
	job := api.Job{
		ID:        r["Job Id"],
		Name:      r["Job_Name"],
		Queue:     r["queue"],
		Node:      pbsNode(r["exec_host"]),
		Reason:    r["comment"],
		Script:    r.script(),
		Submitted: pbsTime(r["ctime"]),
	}
	if n, err := strconv.Atoi(r["run_count"]); err == nil && n > 1 {
		job.Restarts = n - 1
	}
	r.setState(&job)
	r.setTimes(&job)
	return job
}

func (r pbsRecord) setState(job *api.Job) {
	switch r["job_state"] {
	case "Q", "T", "W":
		job.State = api.JobQueued
		why := pbsReason(job.Reason)
		if r["job_state"] == "W" && job.Reason == "" {
			why = reason{words: "its time to begin has not come"}
		}
		job.Hint = why.hint()
	case "H":
		job.State = api.JobHeld
		job.Hint = pbsHold(r["Hold_Types"], r["depend"])
	case "R", "B", "M":
		job.State = api.JobRunning
		job.Reason = ""
	case "S", "U":
		job.State = api.JobRunning
		job.Hint = "suspended by the scheduler or an administrator: nothing in it moves until it is resumed"
	case "E":
		job.State = api.JobCompleting
	case "F", "X":
		r.setEnd(job)
	default:
		job.State = api.JobUnknown
	}
}

func pbsHold(types, depend string) string {
	switch {
	case depend != "":
		return "waits for another job to end"
	case strings.Contains(types, "u"):
		return reason{words: "held by yourself: release it with qrls", never: true}.hint()
	}
	return reason{words: "held by an administrator or the scheduler: ask the site", never: true}.hint()
}

// setEnd reads Exit_status: negative ones are PBS's own, above 256 a signal, and a
// finished job without one never ran.
func (r pbsRecord) setEnd(job *api.Job) {
	status, err := strconv.Atoi(r["Exit_status"])
	if err != nil {
		job.State = api.JobNeverRan
		job.Hint = "it ended without having run"
		switch {
		case r["job_state"] == "X":
			job.State, job.Hint = api.JobFinished, ""
		case r["substate"] == "91" || strings.Contains(job.Reason, " and terminated"):
			job.State, job.Hint = api.JobCancelled, "deleted before it ran"
		case r["depend"] != "":
			job.Hint = "the job it depends on did not end as required"
		}
		return
	}
	job.State = pbsEnd(status, r["substate"], job.Reason)
	switch {
	case status > 256:
		status = 128 + status - 256
	case status < 0:
		job.Hint = pbsFailure(status)
		return
	}
	job.Exit = &status
	if job.State == api.JobFailed {
		job.Hint = fmt.Sprintf("the script ended with status %d: see its log", status)
	}
}

func pbsEnd(status int, substate, comment string) api.JobState {
	switch {
	case status == -29 || status == -28:
		return api.JobTimeout
	case status == -27 || status == -26:
		return api.JobOOM
	case status == 256+15, substate == "91", strings.Contains(comment, " and terminated by "):
		return api.JobCancelled
	case status == 0:
		return api.JobFinished
	}
	return api.JobFailed
}

func pbsFailure(status int) string {
	switch status {
	case -29:
		return "its walltime was over"
	case -28:
		return "its CPU time was over"
	case -27, -26:
		return "it used more memory than it asked for: ask for more with mem="
	case -24, -25:
		return "it used more CPUs than it asked for"
	}
	return fmt.Sprintf("PBS could not start or finish it (status %d): ask the site", status)
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
