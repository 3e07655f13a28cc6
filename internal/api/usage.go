package api

import "time"

// UsageSource says where the figures of a Usage are from.
type UsageSource string

// The sources of usage.
const (
	UsageStep      UsageSource = "step"      // measured inside the job
	UsageScheduler UsageSource = "scheduler" // from the scheduler's accounting: slow and coarse
)

// Usage is what a session's job uses of what it has, at one time. What is not known is
// left out.
type Usage struct {
	Session     string      `json:"session"`
	Time        time.Time   `json:"time"`
	Source      UsageSource `json:"source,omitempty"` // none: only the traffic is known
	CPUPercent  *float64    `json:"cpu,omitempty"`    // of all its CPUs together: 100 is all of them
	CPUs        int         `json:"cpus,omitempty"`   // of the job, on the node measured
	Memory      int64       `json:"memory,omitempty"` // bytes
	MemoryLimit int64       `json:"memoryLimit,omitempty"`
	GPUs        []GPUUsage  `json:"gpus,omitempty"`
	BytesIn     int64       `json:"bytesIn,omitempty"` // of its forwards, in all
	BytesOut    int64       `json:"bytesOut,omitempty"`
	IdleSince   time.Time   `json:"idleSince,omitzero"` // nothing has used the job since then
	// Problem says in words why there are no figures of the job.
	Problem string `json:"problem,omitempty"`
}

// GPUUsage is the use of one GPU of a job.
type GPUUsage struct {
	Name        string   `json:"name,omitempty"`
	Percent     *float64 `json:"percent,omitempty"`
	Memory      int64    `json:"memory,omitempty"` // bytes
	MemoryTotal int64    `json:"memoryTotal,omitempty"`
}
