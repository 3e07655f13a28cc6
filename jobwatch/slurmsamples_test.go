package jobwatch

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// readSlurmSample is the sampleReader of Slurm.
func readSlurmSample(s sample) ([]sampleRecord, string) {
	program, _, _ := strings.Cut(s.command, " ")
	program = filepath.Base(program)
	switch {
	case strings.Contains(s.command, "json") || strings.Contains(s.command, "yaml"):
		return nil, "answers of " + program + " as JSON or YAML, which the program never asks for"
	case program == "scontrol" && strings.Contains(s.command, "show job") && s.res.Exit == 0:
		var records []sampleRecord
		for _, r := range splitScontrol(string(s.res.Stdout)) {
			records = append(records, scontrolSample(r))
		}
		return records, ""
	case program == "sbatch":
		return []sampleRecord{sbatchSample(s)}, ""
	case program == "sacct" && sacctColumns(s) != "":
		return sacctSamples(s), ""
	case s.res.Exit != 0:
		return []sampleRecord{failureSample(program, s)}, ""
	}
	return nil, "answers of " + program + " in a form that the program never asks for"
}

// sampleStates are Slurm's words, long and short, in ours.
var sampleStates = map[string]api.JobState{
	"PENDING": api.JobQueued, "PD": api.JobQueued, "RUNNING": api.JobRunning, "R": api.JobRunning,
	"SUSPENDED": api.JobRunning, "S": api.JobRunning, "COMPLETED": api.JobFinished, "CD": api.JobFinished,
	"COMPLETING": api.JobCompleting, "CG": api.JobCompleting, "CONFIGURING": api.JobConfiguring, "CF": api.JobConfiguring,
	"FAILED": api.JobFailed, "F": api.JobFailed, "CANCELLED": api.JobCancelled, "CA": api.JobCancelled,
	"TIMEOUT": api.JobTimeout, "TO": api.JobTimeout, "OUT_OF_MEMORY": api.JobOOM, "OOM": api.JobOOM,
	"NODE_FAIL": api.JobNodeFail, "NF": api.JobNodeFail, "BOOT_FAIL": api.JobNodeFail, "BF": api.JobNodeFail,
	"PREEMPTED": api.JobPreempted, "PR": api.JobPreempted, "DEADLINE": api.JobTimeout, "DL": api.JobTimeout,
	"REQUEUED": api.JobQueued, "REQUEUE_HOLD": api.JobHeld, "SPECIAL_EXIT": api.JobHeld, "STOPPED": api.JobRunning,
	"RESIZING": api.JobRunning, "SIGNALING": api.JobRunning, "REVOKED": api.JobRunning, "STAGE_OUT": api.JobCompleting,
}

// sampleState compares a state. A waiting job may be held, which only its reason shows.
func sampleState(want string, job api.Job) (string, bool, bool) {
	word, _, _ := strings.Cut(want, " ")
	state, known := sampleStates[strings.TrimSuffix(word, "+")]
	return string(job.State), state == job.State || state == api.JobQueued && job.State == api.JobHeld, known
}

// plainTime is a time as Slurm prints it; samples from manual pages have typesetting in it.
var plainTime = regexp.MustCompile(`^(?:\d+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)$`)

// scontrolSample compares with both the job that a record becomes and the record.
func scontrolSample(r slurmRecord) sampleRecord {
	job := r.job()
	return sampleRecord{id: r["JobId"], fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			got, _, _ := strings.Cut(cmp.Or(r["ArrayJobId"], job.ID), "_")
			return got, r["JobId"] == want || got == want || job.ID == want, true
		case "name":
			return job.Name, job.Name == want, true
		case "state":
			return sampleState(want, job)
		case "reason":
			told := job.Reason == strings.ReplaceAll(want, "_", " ") || r["JobState"] == "SUSPENDED"
			return r["Reason"], r["Reason"] == want && (told || slurmValue(want) == ""), true
		case "node":
			return job.Node, api.SameNode(job.Node, want), true
		case "partition", "queue":
			return job.Queue, job.Queue == want, true
		case "user", "group":
			got, _, _ := strings.Cut(r[map[string]string{"user": "UserId", "group": "GroupId"}[name]], "(")
			return got, got == want, true
		case "submit", "start", "end":
			return sampleTime(name, want, job)
		case "stdout":
			return r["StdOut"], r["StdOut"] == want && (job.Log == want || job.Log == "" || strings.Contains(want, "%")), true
		case "stderr":
			there := r.waitsTogether() || job.Log == want || slices.Contains(job.OtherLogs, want) || want == "/dev/null" || strings.Contains(want, "%")
			return r["StdErr"], r["StdErr"] == want && there, true
		case "command":
			return r["Command"], r["Command"] == want || job.Script == want, true
		case "exitcode", "exit":
			same := r["ExitCode"] == want || strings.HasPrefix(r["ExitCode"], want+":")
			return r["ExitCode"], same && (job.Exit != nil) == job.State.Ended(), true
		}
		got, read := r.byName(name)
		return got, got == strings.TrimSpace(want), read
	}}
}

// byName is the field that a fact is named after, as in array_job_id.
func (r slurmRecord) byName(fact string) (string, bool) {
	fact = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(fact))
	for key, value := range r {
		if strings.ToLower(strings.ReplaceAll(key, "_", "")) == fact {
			return value, true
		}
	}
	return "", slices.Contains([]string{"workdir", "timelimit", "comment", "submitline", "nodelist", "restarts"}, fact)
}

// sampleTime compares a time; the start of a job that waits is a forecast.
func sampleTime(name, want string, job api.Job) (string, bool, bool) {
	if !plainTime.MatchString(want) {
		return "", false, false
	}
	waits := job.State == api.JobQueued || job.State == api.JobHeld
	got := job.Submitted
	switch {
	case name == "end" && waits:
		return "", false, false
	case name == "end":
		got = job.End
	case name == "start" && waits:
		got = job.ExpectedStart
	case name == "start":
		got = job.Start
	}
	return got.Format("2006-01-02T15:04:05"), got.Equal(sched.ParseTime(want)), true
}

// sbatchSample compares what the program reads in sbatch's answer.
func sbatchSample(s sample) sampleRecord {
	ref, err := newSlurm().ParseSubmit(s.res)
	id, cluster, _ := strings.Cut(ref, ";")
	refused, _ := errors.AsType[*api.Error](err)
	return sampleRecord{id: id, fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return id, id == want, true
		case "cluster":
			return cluster, cluster == want, true
		case "cause":
			// The index words causes its own way: compare only whether there is one.
			if refused == nil {
				return "no refusal", errors.Is(err, sched.ErrDoubt), true
			}
			return refused.Message, refused.Hint != "", true
		}
		return "", false, false
	}}
}

// failureSample compares what the program reads in a failed query.
func failureSample(program string, s sample) sampleRecord {
	err := slurmProblem(program, s.res)
	return sampleRecord{fact: func(name, _ string) (string, bool, bool) {
		return fmt.Sprint(err), err != nil, name == "cause"
	}}
}

var sacctHeader = regexp.MustCompile(`^JobID(?:Raw)?\|.*State`)

// sacctColumns are the columns of sacct -p or -P, empty for a table.
func sacctColumns(s sample) string {
	header, _, _ := strings.Cut(string(s.res.Stdout), "\n")
	if !sacctHeader.MatchString(header) {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(header, "|"), "|", ",")
}

// sacctSamples converts the columns of sacct -p or -P to those of our query.
func sacctSamples(s sample) []sampleRecord {
	_, rest, _ := strings.Cut(string(s.res.Stdout), "\n")
	var records []sampleRecord
	for _, job := range parseSacct(columns(rest, sacctColumns(s), sacctFields, "|", "\n")) {
		records = append(records, sampleRecord{id: job.ID, fact: func(name, want string) (string, bool, bool) {
			switch name {
			case "id":
				return job.ID, job.ID == want, true
			case "name":
				return job.Name, job.Name == want, true
			case "state":
				return sampleState(want, job)
			case "partition":
				return job.Queue, job.Queue == want, true
			case "node":
				return job.Node, job.Node == want, true
			case "submit", "start", "end":
				return sampleTime(name, want, job)
			}
			return "", false, false
		}})
	}
	return records
}
