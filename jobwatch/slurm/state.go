package slurm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// setState translates the state, and explains its reason.
func setState(job *api.Job, state string) {
	word, _, _ := strings.Cut(strings.TrimSpace(state), " ") // "CANCELLED by 2001"
	job.State = cmp.Or(stateWords[strings.TrimSuffix(word, "+")], api.JobUnknown)
	switch {
	case job.State == api.JobQueued:
		r := reasonFor(job.Reason)
		if r.Held {
			job.State = api.JobHeld
		}
		job.Hint = r.Hint()
		if job.Reason == "BeginTime" && job.Restarts > 0 {
			job.Hint += "; a requeued job waits two minutes"
		}
	case word == revoked:
		job.Reason = word
		job.Hint = "another cluster of the federation runs the job, and tunctl does not follow it there: log in to that cluster, or choose one with -M"
	case job.State == api.JobRunning && job.Reason == "Prolog":
		job.Hint = reasonFor(job.Reason).Hint()
	case word == api.ReasonSuspended || word == "STOPPED":
		job.Reason = word
		job.Hint = sched.SuspendedHint
	case word == "DEADLINE":
		job.Hint = "the deadline of the job passed, or could no longer be met"
	case word != "" && job.Reason == "" && job.State.Ended() && job.State != api.JobFinished:
		job.Reason = strings.TrimSpace(state)
	}
}

// revoked is the state of a job at its origin while another cluster of the federation runs it.
const revoked = "REVOKED"

var stateWords = map[string]api.JobState{
	"PENDING": api.JobQueued, "REQUEUED": api.JobQueued, "REQUEUE_FED": api.JobQueued,
	"REQUEUE_HOLD": api.JobHeld, "SPECIAL_EXIT": api.JobHeld, "RESV_DEL_HOLD": api.JobHeld,
	"CONFIGURING": api.JobConfiguring, "POWER_UP_NODE": api.JobConfiguring,
	"RUNNING": api.JobRunning, "SUSPENDED": api.JobRunning, "STOPPED": api.JobRunning, "RESIZING": api.JobRunning, "SIGNALING": api.JobRunning,
	revoked:      api.JobRunning,
	"COMPLETING": api.JobCompleting, "STAGE_OUT": api.JobCompleting,
	"COMPLETED": api.JobFinished,
	"FAILED":    api.JobFailed, "LAUNCH_FAILED": api.JobFailed, "RECONFIG_FAIL": api.JobFailed,
	"CANCELLED": api.JobCancelled,
	"TIMEOUT":   api.JobTimeout, "DEADLINE": api.JobTimeout,
	"OUT_OF_MEMORY": api.JobOOM,
	"NODE_FAIL":     api.JobNodeFail, "BOOT_FAIL": api.JobNodeFail,
	"PREEMPTED": api.JobPreempted,
}

// setTimes sets the times, after state and node. The start of a job that waits is a
// forecast, and its end is meaningless; the start of one that ended without a node is its end.
func setTimes(job *api.Job, submit, start, end string) {
	job.Submitted = sched.ParseTime(submit)
	if job.State == api.JobHeld || job.State == api.JobQueued {
		job.ExpectedStart = sched.ParseTime(start)
		withdrawNever(job)
		return
	}
	job.Start, job.End = sched.ParseTime(start), sched.ParseTime(end)
	if job.State.Ended() && job.Node == "" {
		job.Start = time.Time{}
	}
}

// withdrawNever: the reason is about one partition and about the nodes that are up, so a job that
// has other partitions or a forecast may start all the same.
func withdrawNever(job *api.Job) {
	why, never := strings.CutPrefix(job.Hint, api.HintNeverStarts+": ")
	switch {
	case !never:
	case strings.Contains(job.Queue, ","):
		job.Hint = "the job may start in another of its partitions; in one, " + why
	case !job.ExpectedStart.IsZero():
		job.Hint = "Slurm expects to start the job, although it says: " + why
	}
}

// setExit reads "status:signal" of an ended job.
func setExit(job *api.Job, text string) {
	if !job.State.Ended() {
		return
	}
	status, signal, ok := strings.Cut(text, ":")
	code, err := strconv.Atoi(status)
	if !ok || err != nil {
		return
	}
	number, _ := strconv.Atoi(signal)
	if job.State == api.JobFailed {
		job.Hint = failureHint(code, number)
	}
	if number != 0 {
		code = 128 + number
	}
	job.Exit = &code
}

// setMemory reads from cpu=4,mem=16G,node=2 how much memory a job had on each node, if it may have run
// out of that: without control groups, Slurm kills such a job, and only its log says why.
func setMemory(job *api.Job, tres string) {
	killed := job.Exit != nil && *job.Exit == 128+9
	if job.State != api.JobOOM && (job.State != api.JobFailed || !killed) {
		return
	}
	amounts := map[string]int64{}
	for item := range strings.SplitSeq(tres, ",") {
		name, amount, _ := strings.Cut(item, "=")
		amounts[name] = sched.ParseSize(amount)
	}
	job.Memory = amounts["mem"] / max(amounts["node"], 1)
}

// failureHint explains how a job failed, from its exit status.
func failureHint(status, signal int) string {
	switch {
	case status == 0 && signal == 53:
		return "Slurm could not open the output file or working directory of the job: check that both exist on the node"
	case signal == 9:
		return "the job was killed (signal 9), often because it ran out of memory: ask for more with --mem"
	case signal != 0:
		return fmt.Sprintf("the job was killed by signal %d", signal)
	case status == 127:
		return "the script called a command that is not installed on the node: see the log"
	}
	return sched.ExitHint(status)
}
