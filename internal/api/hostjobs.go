package api

// JobsResponse lists a person's jobs on a host.
type JobsResponse struct {
	Jobs []Job `json:"jobs"`
}

// SchedulerResponse names the scheduler of a host: "slurm", "pbs" or "none".
type SchedulerResponse struct {
	Scheduler string `json:"scheduler"`
}

// SubmitRequest asks to submit a job that belongs to no session.
type SubmitRequest struct {
	// Script is as in a session's submit: a path on the host, or local:/path here.
	Script  string   `json:"script"`
	Args    []string `json:"args,omitempty"` // extra words for the scheduler
	Workdir string   `json:"workdir,omitempty"`
}

// JobResponse is one job.
type JobResponse struct {
	Job Job `json:"job"`
}
