package api

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
	Asked   int64    `json:"asked"`  // their time limits, as far as they are known
	Used    int64    `json:"used"`   // how long they ran, idle or not
	Idle    int64    `json:"idle"`   // the part of Used without use, as far as it was measured
	Waited  int64    `json:"waited"` // in the queue; always of jobs
}

// TimeUnit is what a time counts.
type TimeUnit string

// The units of a WeekSummary.
const (
	JobHours  TimeUnit = "hours"
	GPUHours  TimeUnit = "GPU-hours"
	NodeHours TimeUnit = "node-hours" // where whole nodes are charged
)
