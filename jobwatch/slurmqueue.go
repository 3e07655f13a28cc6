package jobwatch

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Job names may contain anything a person can type, so that squeue's fields end in
// control characters that nobody types.
const (
	fieldEnd  = "\x1f"
	recordEnd = "\x1e\n"
)

// squeueFields are the columns of a query, in the order of squeueJob. All of them
// are older than any Slurm in use; one unknown name would fail the whole query.
var squeueFields = []string{
	"JobID", "ArrayJobID", "ArrayTaskID", "State", "Partition", "NodeList",
	"SubmitTime", "StartTime", "EndTime", "RestartCnt", "Reason", "Command",
	"StdOut", "BatchFlag", "UserName", "BatchHost", "Cluster", "Name",
}

// squeueFormat is the columns as -O takes them: an empty width means no padding and
// no cutting.
func squeueFormat() string {
	return strings.Join(squeueFields, ":"+fieldEnd+",") + ":" + strings.TrimSuffix(recordEnd, "\n")
}

func parseSqueue(out string) []api.Job {
	var jobs []api.Job
	for record := range strings.SplitSeq(out, recordEnd) {
		fields := strings.SplitN(record, fieldEnd, len(squeueFields))
		if len(fields) == len(squeueFields) {
			jobs = append(jobs, squeueJob(fields))
		}
	}
	return jobs
}

func squeueJob(f []string) api.Job {
	// A line of a site's own, or "CLUSTER: name", may precede a record.
	id := f[0][strings.LastIndexByte(f[0], '\n')+1:]
	job := api.Job{
		ID:      taskID(id, f[1], f[2]),
		Queue:   f[4],
		Node:    batchNode(f[15], f[5]),
		Reason:  slurmWord(f[10]),
		Script:  slurmWord(f[11]),
		Cluster: slurmWord(f[16]),
		Name:    strings.TrimRight(f[17], " "),
	}
	job.Restarts, _ = strconv.Atoi(f[9])
	setSlurmState(&job, f[3])
	setSlurmTimes(&job, f[6], f[7], f[8])
	job.Log = listedLog(job, id, f)
	return job
}

// taskID is the id as people write it: 54, 54_1, or 54_[2-5%2] for the tasks of an
// array that still wait together.
func taskID(id, array, task string) string {
	if array == "" || task == "" || task == "N/A" || array == "N/A" {
		return id
	}
	if strings.Trim(task, "0123456789") != "" {
		task = "[" + task + "]"
	}
	return array + "_" + task
}

// batchNode is the node on which a batch script runs: the one that Slurm names, or
// the first of them all.
func batchNode(host, list string) string {
	return cmp.Or(slurmWord(host), firstNode(list))
}

// firstNode is the node on which a batch script runs: the first of cn[01-02],gpu7.
func firstNode(list string) string {
	if slurmWord(list) == "" {
		return ""
	}
	var node strings.Builder
	inside, taken := false, false
	for _, c := range list {
		switch {
		case c == '[':
			inside, taken = true, false
		case c == ']':
			inside = false
		case inside && (c == ',' || c == '-'):
			taken = true
		case inside && taken:
		case c == ',':
			return node.String()
		default:
			node.WriteRune(c)
		}
	}
	return node.String()
}

// slurmWord is a value, or nothing where Slurm has several words for that.
func slurmWord(s string) string {
	switch s = strings.TrimSpace(s); s {
	case "None", "(null)", "N/A", "n/a", "None assigned", "Unknown", "NONE":
		return ""
	}
	return s
}

// setSlurmState translates the state, and puts its reason into words.
func setSlurmState(job *api.Job, state string) {
	word, _, _ := strings.Cut(strings.TrimSpace(state), " ") // "CANCELLED by 2001"
	job.State = slurmState(strings.TrimSuffix(word, "+"))
	switch {
	case job.State == api.JobQueued:
		r := slurmReason(job.Reason)
		if r.held {
			job.State = api.JobHeld
		}
		job.Hint = r.hint()
	case job.State == api.JobRunning && job.Reason == "Prolog":
		job.Hint = slurmReason(job.Reason).hint()
	case word == "SUSPENDED" || word == "STOPPED":
		job.Reason = word
		job.Hint = "the job is suspended by the scheduler or an administrator: nothing responds until it is resumed"
	case word == "DEADLINE":
		job.Hint = "the deadline of the job passed, or could no longer be met"
	case word != "" && job.Reason == "" && job.State.Ended() && job.State != api.JobFinished:
		job.Reason = strings.TrimSpace(state)
	}
}

func slurmState(word string) api.JobState {
	switch word {
	case "PENDING", "REQUEUED", "REQUEUE_FED":
		return api.JobQueued
	case "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		return api.JobHeld
	case "CONFIGURING", "POWER_UP_NODE":
		return api.JobConfiguring
	case "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING":
		return api.JobRunning
	case "COMPLETING", "STAGE_OUT":
		return api.JobCompleting
	case "COMPLETED":
		return api.JobFinished
	case "FAILED", "LAUNCH_FAILED", "RECONFIG_FAIL":
		return api.JobFailed
	case "CANCELLED", "REVOKED":
		return api.JobCancelled
	case "TIMEOUT", "DEADLINE":
		return api.JobTimeout
	case "OUT_OF_MEMORY":
		return api.JobOOM
	case "NODE_FAIL", "BOOT_FAIL":
		return api.JobNodeFail
	case "PREEMPTED":
		return api.JobPreempted
	}
	return api.JobUnknown
}

// setSlurmTimes fills in the times. The start of a job that waits is a forecast, and
// its end means nothing.
func setSlurmTimes(job *api.Job, submit, start, end string) {
	job.Submitted = slurmTime(submit)
	if job.State == api.JobHeld || job.State == api.JobQueued {
		job.ExpectedStart = slurmTime(start)
		return
	}
	job.Start, job.End = slurmTime(start), slurmTime(end)
}

// slurmTime reads seconds since 1970, or what Slurm writes, in UTC, when it does not
// know SLURM_TIME_FORMAT; zero if it is neither.
func slurmTime(s string) time.Time {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		return time.Unix(n, 0).UTC()
	}
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		return time.Time{}
	}
	return t
}
