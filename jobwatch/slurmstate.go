package jobwatch

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

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

// slurmReason explains Slurm's word for why a job waits.
func slurmReason(word string) reason {
	word = strings.ReplaceAll(word, "_", " ")
	if r, ok := slurmReasons[word]; ok {
		return r
	}
	for _, p := range slurmReasonParts {
		if strings.HasPrefix(word, p.prefix) && strings.HasSuffix(word, p.suffix) {
			return p.reason
		}
	}
	return reason{}
}

var slurmReasons = map[string]reason{
	"Resources":                   {words: "waiting for free nodes"},
	"Priority":                    {words: "other jobs have a higher priority"},
	"BeginTime":                   {words: "the start time is not reached yet; a requeued job waits two minutes"},
	"Dependency":                  {words: "waiting for another job to end"},
	"DependencyNeverSatisfied":    {words: "the job that this job depends on did not end as required: cancel this job and submit it again", never: true},
	"JobHeldUser":                 {words: "held by you: release it with scontrol release", held: true, never: true},
	"JobHeldAdmin":                {words: "held by an administrator: ask the site", held: true, never: true},
	"JobHoldMaxRequeue":           {words: "held after too many requeues: find out why the runs ended", held: true, never: true},
	"PartitionDown":               {words: "the partition is down"},
	"PartitionInactive":           {words: "the partition starts no jobs now"},
	"PartitionConfig":             {words: "no node of the partition has the requested resources: change --partition, or ask for less", never: true},
	"PartitionNodeLimit":          {words: "the job asks for more nodes than the partition allows: lower --nodes, or change --partition", never: true},
	"PartitionTimeLimit":          {words: "the job asks for more time than the partition allows: lower --time, or change --partition", never: true},
	"AccountNotAllowed":           {words: "your account may not use this partition: change --account or --partition", never: true},
	"InvalidAccount":              {words: "the account is not valid: set --account", never: true},
	"InvalidQOS":                  {words: "the QOS is not valid: change --qos", never: true},
	"QOSNotAllowed":               {words: "the QOS is not allowed here: change --qos or --partition", never: true},
	"BadConstraints":              {words: "no node satisfies the constraints: change --constraint, or ask for less", never: true},
	"ReservationDeleted":          {words: "the reservation was deleted: submit without --reservation", never: true},
	"Reservation":                 {words: "waiting for the reservation to begin"},
	"Licenses":                    {words: "waiting for a licence"},
	"JobArrayTaskLimit":           {words: "the array has reached its limit of simultaneous tasks"},
	"Cleaning":                    {words: "the previous run is being cleaned up"},
	"Prolog":                      {words: "the nodes are being prepared, which can take many minutes"},
	"NodeDown":                    {words: "a required node is down"},
	"SystemFailure":               {words: "Slurm reports a system failure: ask the site"},
	"MaxPowerAvail":               {words: "the power budget of the cluster is used up"},
	"None":                        {},
	"launch failed requeued held": {words: "held after the launch failed: release it with scontrol release", held: true, never: true},
	"job requeued in held state":  {words: "requeued and held: release it with scontrol release", held: true, never: true},
	"AssocMaxJobsLimit":           {words: "you have reached your job limit; this job starts when another one ends"},
	"QOSMaxJobsPerUserLimit":      {words: "you have reached the job limit of this QOS; this job starts when another one ends"},
	"AssociationJobLimit":         {words: "you have reached your job limit; this job starts when another one ends"},
	"QOSJobLimit":                 {words: "this QOS has reached its job limit"},
	"QOSResourceLimit":            {words: "you have reached the resource limit of this QOS"},
	"AssocGrpJobsLimit":           {words: "your group has reached its job limit; this job starts when another one ends"},
}

// slurmReasonParts cover the families, most telling first. A limit per job cannot be
// met by waiting; a used-up allocation does not refill while one waits.
var slurmReasonParts = []struct {
	prefix, suffix string
	reason
}{
	{"", "MinutesLimit", reason{words: "the allocation is used up: check your quota, or use another account", never: true}},
	{"", "Minutes", reason{words: "the allocation is used up: check your quota, or use another account", never: true}},
	{"", "PerJobLimit", reason{words: "the job asks for more than one job may use: ask for less, or change --qos", never: true}},
	{"", "PerJob", reason{words: "the job asks for more than one job may use: ask for less, or change --qos", never: true}},
	{"", "PerNode", reason{words: "the job asks for more per node than one job may use: ask for less", never: true}},
	{"QOSMaxWall", "", reason{words: "the job asks for more time than the QOS allows: lower --time", never: true}},
	{"AssocMaxWall", "", reason{words: "the job asks for more time than you may use: lower --time", never: true}},
	{"QOSMin", "", reason{words: "the job asks for less than the QOS requires, often a number of GPUs: see the rules of the site", never: true}},
	{"QOSMax", "PerUserLimit", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"QOSMax", "PerUser", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"QOSGrp", "", reason{words: "this QOS has reached its limit for all users"}},
	{"QOSMax", "", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"AssocGrp", "", reason{words: "your group has reached its limit; the job starts when another one of the group ends"}},
	{"Assoc", "", reason{words: "you have reached the limit of your account; the job starts when another one of yours ends"}},
	{"MaxJobsPer", "", reason{words: "you have reached your job limit; this job starts when another one ends"}},
	{"ReqNodeNotAvail, Reserved", "", reason{words: "the nodes are reserved, often for a maintenance: a shorter --time may fit before it"}},
	{"ReqNodeNotAvail", "", reason{words: "the requested nodes are down, drained or reserved: a shorter --time or other nodes may help"}},
	{"Nodes required for job are DOWN", "", reason{words: "waiting for nodes; some are down, or reserved for jobs with a higher priority"}},
	{"Job's account not permitted", "", reason{words: "your account may not use this partition: change --account or --partition", never: true}},
	{"Job's QOS not permitted", "", reason{words: "the QOS is not allowed in this partition: change --qos or --partition", never: true}},
	{"Reserved for maintenance", "", reason{words: "a maintenance is coming: a shorter --time may fit before it"}},
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

// setSlurmExit reads "status:signal" of an ended job.
func setSlurmExit(job *api.Job, text string) {
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
		job.Hint = slurmFailure(code, number)
	}
	if number != 0 {
		code = 128 + number
	}
	job.Exit = &code
}

// slurmFailure explains how a job failed where its status tells.
func slurmFailure(status, signal int) string {
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
	return fmt.Sprintf("the script ended with exit status %d: see the log", status)
}
