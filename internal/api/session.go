package api

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// SessionState is how far a session is on its way to an open page.
type SessionState string

// The states of a session.
const (
	SessionDown         SessionState = "down"
	SessionConnecting   SessionState = "connecting"
	SessionNeedsLogin   SessionState = "needs-login"
	SessionSubmitting   SessionState = "submitting"
	SessionQueued       SessionState = "queued"
	SessionStarting     SessionState = "starting"
	SessionReady        SessionState = "ready"
	SessionReconnecting SessionState = "reconnecting"
	SessionEnded        SessionState = "ended"
	SessionFailed       SessionState = "failed"
)

// Settled reports whether the state stays until the user acts.
func (s SessionState) Settled() bool {
	return s == SessionDown || s == SessionNeedsLogin || s == SessionEnded || s == SessionFailed
}

// LogEndsWith is what a cause has before the last lines of a job's log: everything after
// it was written by the job.
const LogEndsWith = "; its log ends with:\n"

// AppShell is the app of a session whose job serves no page, but runs shells and editors.
const AppShell = "shell"

// Session is what the user brings up by name.
type Session struct {
	Name  string       `json:"name"`
	Host  string       `json:"host"`
	App   string       `json:"app,omitempty"`  // of the config; AppShell: its job serves no page
	With  Choices      `json:"with,omitempty"` // what the user chose for this run
	Of    string       `json:"of,omitempty"`   // the session of the config that this one is a second of, by up --as
	State SessionState `json:"state"`
	Cause string       `json:"cause,omitempty"`
	Hint  string       `json:"hint,omitempty"`
	Code  Code         `json:"code,omitempty"`  // of the failure behind a failed, ended or needs-login state
	Asked bool         `json:"asked,omitempty"` // the user caused it through tunctl: cancelled its job, or logged out
	// MaySubmit says that the user's up permits the agent to submit the job, once: while
	// the command that asked waits, and for an hour at most.
	MaySubmit bool `json:"maySubmit,omitempty"`
	// Idle says that the user was told that the job is idle, and that it still is, as
	// far as is known.
	Idle bool `json:"idle,omitempty"`
	// IdleEnd is when the job ends unless it is used (end_idle), as far as that is near.
	IdleEnd time.Time `json:"idleEnd,omitzero"`
	// Forgotten, in the response to a down, says that the session no longer exists. Its
	// job keeps running, unknown to tunctl.
	Forgotten bool      `json:"forgotten,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Job       *Job      `json:"job,omitempty"`
	Next      *Job      `json:"next,omitempty"`
	// Others are further jobs that tunctl has submitted for the session and that wait or run: the
	// result of their submission was not known when another was submitted.
	Others []Job `json:"others,omitempty"`
	// Pending says that the result of a submission is not known: its job may still appear.
	Pending bool `json:"pending,omitempty"`
	// Candidates are the running jobs of the session's name, if there are several: an up
	// that names one continues with it.
	Candidates []Job     `json:"candidates,omitempty"`
	Endpoint   *Endpoint `json:"endpoint,omitempty"`
	// Endpoints are the pages that the job serves besides Endpoint, each of which is
	// forwarded from its first use on.
	Endpoints []NamedEndpoint `json:"endpoints,omitempty"`
	Local     string          `json:"local,omitempty"`
	URL       string          `json:"url,omitempty"`
	Forwards  []Forward       `json:"forwards"`
	// Websockets is nil while there is no page, and for a page that is not reached through a job.
	Websockets *Websockets `json:"websockets,omitempty"`
	Usage      *Usage      `json:"usage,omitempty"` // of `tunctl status SESSION`

	// Warnings say what a user should know while the session is up: that a disk is full, or that the
	// section of the config was edited.
	Warnings []string `json:"warnings,omitempty"`

	// Recent are the choices of earlier runs, the newest first, at most five.
	Recent []Choices `json:"recent,omitempty"`

	// Held is what the last lost connection meant for what runs inside the job; nil: none was lost.
	Held *Held `json:"held,omitempty"`

	// Cells are those whose page is gone.
	Cells Cells `json:"cells,omitzero"`

	// NotRespondingSince is set while the session's host is connected but does not respond.
	NotRespondingSince time.Time `json:"notRespondingSince,omitzero"`
}

// Websockets says what becomes of a page's open WebSockets when the connection to the host is lost.
type Websockets struct {
	Continue bool   `json:"continue"`
	Why      string `json:"why,omitempty"` // they end
}

// IsUp reports whether the session is up, or coming up.
func (s Session) IsUp() bool {
	return s.State != SessionDown && s.State != SessionEnded && s.State != SessionFailed
}

// RunsJob reports whether the session's job is running.
func (s Session) RunsJob() bool { return s.Job != nil && s.Job.State == JobRunning }

// HasLiveJob reports whether the session's job runs or waits, as far as is known.
func (s Session) HasLiveJob() bool { return s.Job != nil && !s.Job.State.Ended() }

// MayHaveLiveJob is HasLiveJob, but for the job of a session that is down: it is not watched,
// and counts only until its time limit.
func (s Session) MayHaveLiveJob(now time.Time) bool {
	return s.HasLiveJob() && (s.State != SessionDown || s.Job.End.IsZero() || s.Job.End.After(now))
}

// LiveJobs are the jobs of the session that wait or run, as far as is known, so that they are charged
// or will be: its own, the one that follows it, and those of earlier submissions. If a submission is
// Pending, there may be one more.
func (s Session) LiveJobs() []Job {
	var jobs []Job
	for _, j := range []*Job{s.Job, s.Next} {
		if j != nil {
			jobs = append(jobs, *j)
		}
	}
	return slices.DeleteFunc(append(jobs, s.Others...), func(j Job) bool { return j.State.Ended() })
}

// LiveText names the LiveJobs and the one that may still appear; "" if there are none.
func (s Session) LiveText() string {
	var names []string
	for _, j := range s.LiveJobs() {
		names = append(names, "job "+j.ID)
	}
	if s.Pending {
		names = append(names, "a job that may still appear")
	}
	return strings.Join(names, " and ")
}

// AwaitsSubmission reports whether the session's job is yet to be submitted, which happens only
// while a command waits.
func (s Session) AwaitsSubmission() bool { return s.MaySubmit && s.Job == nil }

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

// Held is what a lost connection means for what runs inside a session's job: shells, editors,
// copies and forwards. They wait until there is a connection again, and continue then.
type Held struct {
	Since   time.Time `json:"since"`          // when something last came from there
	Streams int       `json:"streams"`        // that wait, or have continued
	Waiting int       `json:"waiting"`        // bytes that wait on this computer to be sent there
	Full    bool      `json:"full,omitempty"` // programs that send more wait
	Until   time.Time `json:"until,omitzero"` // when that was over; zero: they wait
	// Paused are the programs that waited meanwhile: the buffer for their output was full. That is known
	// only afterwards.
	Paused int `json:"paused,omitempty"`
	// Lost are the streams that could not continue, for a cause.
	Lost  int    `json:"lost,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Earlier is the last interruption before this one in which streams were lost.
	Earlier *Held `json:"earlier,omitempty"`
}

// IsOver reports whether nothing waits any more.
func (h Held) IsOver() bool { return h.Streams == 0 || !h.Until.IsZero() }

// Merge is what both say together. Interruptions at the same time are one; otherwise the one that
// waits counts, or the later one.
func (h Held) Merge(other Held) Held {
	earlier, later := h, other
	if !h.IsOver() || other.IsOver() && other.Until.Before(h.Until) {
		earlier, later = other, h
	}
	if earlier.IsOver() && (!later.IsOver() || earlier.Until.Before(later.Since)) {
		later.Earlier = lastLoss(earlier.Loss(), later.Earlier)
		return later
	}
	if earlier.Since.Before(later.Since) {
		later.Since = earlier.Since
	}
	later.Streams += earlier.Streams
	later.Waiting += earlier.Waiting
	later.Paused += earlier.Paused
	later.Lost += earlier.Lost
	later.Full, later.Cause = later.Full || earlier.Full, cmp.Or(later.Cause, earlier.Cause)
	later.Earlier = lastLoss(earlier.Earlier, later.Earlier)
	return later
}

// Loss is the last interruption in which streams were lost, this one or an earlier one; nil: there was none.
func (h Held) Loss() *Held {
	if h.Lost == 0 {
		return h.Earlier
	}
	h.Earlier = nil
	return &h
}

func lastLoss(a, b *Held) *Held {
	if a == nil || b != nil && b.Until.After(a.Until) {
		return b
	}
	return a
}

// Cells are those of notebooks whose page is gone, with what they print collected on the cluster.
type Cells struct {
	Running  int    `json:"running,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`  // of these, for input
	Finished int    `json:"finished,omitempty"` // while the page was gone
	Trouble  string `json:"trouble,omitempty"`  // why what they print cannot be written down
}

// Merge is what both say together.
func (c Cells) Merge(other Cells) Cells {
	return Cells{c.Running + other.Running, c.Waiting + other.Waiting, c.Finished + other.Finished, cmp.Or(c.Trouble, other.Trouble)}
}
