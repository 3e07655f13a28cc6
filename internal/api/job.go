package api

import (
	"net/netip"
	"strings"
	"time"
)

// JobState is the state of a job, the same for every scheduler.
type JobState string

// The states of a job.
const (
	JobHeld        JobState = "held"
	JobQueued      JobState = "queued"
	JobConfiguring JobState = "configuring"
	JobRunning     JobState = "running"
	JobCompleting  JobState = "completing"
	JobFinished    JobState = "finished"
	JobFailed      JobState = "failed"
	JobCancelled   JobState = "cancelled"
	JobTimeout     JobState = "timeout"
	JobOOM         JobState = "oom"
	JobNodeFail    JobState = "nodefail"
	JobPreempted   JobState = "preempted"
	JobNeverRan    JobState = "neverran"
	JobUnknown     JobState = "unknown"
)

// Ended reports whether a job in this state will not run again.
func (s JobState) Ended() bool {
	switch s {
	case JobFinished, JobFailed, JobCancelled, JobTimeout, JobOOM, JobNodeFail, JobPreempted, JobNeverRan:
		return true
	}
	return false
}

// Waiting reports whether a job in this state has yet to start.
func (s JobState) Waiting() bool { return s == JobHeld || s == JobQueued || s == JobConfiguring }

// Job is a batch job of the host's scheduler, or a plain process.
type Job struct {
	ID            string    `json:"id"`
	Host          string    `json:"host,omitempty"`    // of one of a session's Others: the session may have another by now
	Cluster       string    `json:"cluster,omitempty"` // if Slurm has several and one was given
	Task          string    `json:"task,omitempty"`    // of an array: the one that the other fields are about
	Name          string    `json:"name,omitempty"`
	State         JobState  `json:"state"`
	Reason        string    `json:"reason,omitempty"` // the scheduler's own word
	Hint          string    `json:"hint,omitempty"`   // the same in words the user can act on
	Node          string    `json:"node,omitempty"`
	Nodes         string    `json:"nodes,omitempty"` // all, if it has several, as the scheduler writes them: cn[01-04]
	Queue         string    `json:"queue,omitempty"`
	Submitted     time.Time `json:"submitted,omitzero"`
	Start         time.Time `json:"start,omitzero"`
	End           time.Time `json:"end,omitzero"` // when it ended; of a running job, its time limit
	ExpectedStart time.Time `json:"expectedStart,omitzero"`
	// Limit is how long it may run, in seconds, and Asks what it asks for besides, in its scheduler's words: not every
	// list has them.
	Limit int64     `json:"limit,omitempty"`
	Asks  string    `json:"asks,omitempty"`
	Seen  time.Time `json:"seen,omitzero"` // of a session's job: when the scheduler last reported it
	Log   string    `json:"log,omitempty"`
	// OtherLogs are other files that it writes: its standard error if that is separate,
	// and what its script redirects.
	OtherLogs []string `json:"otherLogs,omitempty"`
	Exit      *int     `json:"exit,omitempty"`
	// Memory is how many bytes a job had that may have run out of memory, or used if that is more: per
	// node, or per slot of Grid Engine, as one chooses them.
	Memory   int64  `json:"memory,omitempty"`
	Restarts int    `json:"restarts,omitempty"` // how often it was requeued
	Script   string `json:"script,omitempty"`   // the path it was submitted from; contains the tag
}

// Unused reports whether the job is over since nobody used it (end_idle).
func (j Job) Unused() bool { return strings.HasSuffix(j.Reason, "without use") }

// Cancelled is the job after it was cancelled, until its scheduler says that it has ended.
func (j Job) Cancelled() Job {
	j.State, j.Hint = JobCompleting, "the job was cancelled and is about to end"
	return j
}

// HostJob is a job with its host.
type HostJob struct {
	Host string `json:"host"`
	Job
}

// Ref identifies the job for its scheduler: by its ID, and by its cluster if that is not
// the host's own.
func (j Job) Ref() string {
	if j.Cluster == "" {
		return j.ID
	}
	return j.ID + ";" + j.Cluster
}

// Run is one job in the history, recorded when it was over.
type Run struct {
	Session string    `json:"session"`
	Host    string    `json:"host"`
	Job     Job       `json:"job"`
	Why     string    `json:"why,omitempty"` // how it ended, in words
	Noted   time.Time `json:"noted"`         // when the agent saw the end
	With    Choices   `json:"with,omitempty"`
	Asked   int64     `json:"asked,omitempty"` // seconds: its time limit, as last seen while it ran
	Idle    int64     `json:"idle,omitempty"`  // seconds without use, as far as it was measured
	GPUs    int       `json:"gpus,omitempty"`  // as With or else the config asked for; 0: none, or not known
	Nodes   int       `json:"nodes,omitempty"` // that are charged as a whole; 0: parts of nodes are, or that is not known
}

// Waited is how long the job was queued, if that is known. Of a job that was requeued, only
// the start of its last run is.
func (r *Run) Waited() (time.Duration, bool) {
	if r.Job.Restarts > 0 {
		return 0, false
	}
	return span(r.Job.Submitted, r.Job.Start)
}

// Ran is how long the job ran, if that is known.
func (r *Run) Ran() (time.Duration, bool) { return span(r.Job.Start, r.Job.End) }

func span(from, to time.Time) (time.Duration, bool) {
	if from.IsZero() || to.Before(from) {
		return 0, false
	}
	return to.Sub(from), true
}

// SameNode compares two names of nodes without their domains.
func SameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}

// IsLocal reports whether a host in an address means the machine itself.
func IsLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || host == "hostname" || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// HintNeverStarts begins the hint of a queued job for which waiting does not help.
const HintNeverStarts = "the job will never start as submitted"

// ReasonSuspended is the reason of a running job whose processes are stopped.
const ReasonSuspended = "SUSPENDED"

// HintSpooled is the hint of a job whose output cannot be read before it ends.
const HintSpooled = "PBS keeps the output of this job on the node until it ends: add #PBS -k oed to the script, or redirect the output to a file"

// ReasonGone is the reason of a job that the scheduler no longer knows.
const ReasonGone = "Gone"

// HistoryResponse are the jobs that have ended, the oldest first, and their sums, the
// newest week first.
type HistoryResponse struct {
	Runs  []Run         `json:"runs"`
	Weeks []WeekSummary `json:"weeks"`
}

// WeekSummary sums up the jobs of a session on a host that ended in one week. Times are
// seconds: of GPUs if the jobs' numbers of GPUs are known, else of jobs.
type WeekSummary struct {
	Week    string   `json:"week"` // its Monday, in local time: "2026-11-16"
	Session string   `json:"session"`
	Host    string   `json:"host"`
	Jobs    int      `json:"jobs"`
	Unit    TimeUnit `json:"unit"`
	Asked   int64    `json:"asked"` // their time limits, as far as they are known
	Used    int64    `json:"used"`  // how long they ran, idle or not
	// The parts of Used by jobs that finished, and that failed.
	Finished int64 `json:"finished"`
	Failed   int64 `json:"failed"`
	Idle     int64 `json:"idle,omitempty"` // the part of Used without use, as far as it was measured
	Waited   int64 `json:"waited"`         // in the queue; always of jobs
}

// TimeUnit is what a time counts.
type TimeUnit string

// The units of a WeekSummary.
const (
	JobSeconds  TimeUnit = "seconds"
	GPUSeconds  TimeUnit = "GPU-seconds"
	NodeSeconds TimeUnit = "node-seconds" // where whole nodes are charged
)
