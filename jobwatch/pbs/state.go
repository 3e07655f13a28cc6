package pbs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

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
