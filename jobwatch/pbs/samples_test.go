package pbs

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/sched"
)

// readSample is the sampleReader of PBS and Torque.
func readSample(s jobtest.Sample) ([]jobtest.Record, string) {
	program, _, _ := strings.Cut(s.Command, " ")
	out := string(s.Result.Stdout)
	switch {
	case program == "qsub":
		return []jobtest.Record{qsubSample(s)}, ""
	case program == "qselect":
		var records []jobtest.Record
		for word := range strings.FieldsSeq(out) {
			records = append(records, jobtest.Record{ID: word, Fact: jobtest.Facts(map[string]string{"id": word})})
		}
		return records, ""
	case program != "qstat":
		return nil, "answers of " + program + ", which the program does not read"
	case otherQstat.MatchString(s.Command):
		return nil, "a form of qstat that the program does not ask for"
	case bytes.HasPrefix(bytes.TrimSpace(s.Result.Stdout), []byte("<")):
		return nil, "XML, in which Torque answers a question for ended jobs; the program then asks without -x"
	case strings.Contains(out, "Job Id: ") || strings.HasPrefix(strings.TrimSpace(out), "{"):
		var records []jobtest.Record
		for _, r := range capturedRecords(s.Capture) {
			records = append(records, qstatSample(r))
		}
		if len(records) == 0 && !strings.Contains(out, "Job Id: ") {
			return nil, "JSON that is none, or has no job; the program reads the text"
		}
		return records, ""
	}
	var records []jobtest.Record
	for _, row := range splitTable(out) {
		records = append(records, tableSample(row))
	}
	if len(records) == 0 {
		records = []jobtest.Record{{Fact: jobtest.OnlyText(sched.LastErrorLine(s.Result))}}
	}
	return records, ""
}

// otherQstat are the options for queues and servers, and for other formats of jobs.
var otherQstat = regexp.MustCompile(` -\w*[BQq]\b| -F *dsv`)

// letters are the states that a letter may mean: a comment may have more.
var letters = map[string][]api.JobState{
	"Q": {api.JobQueued}, "W": {api.JobQueued}, "T": {api.JobQueued}, "H": {api.JobHeld},
	"R": {api.JobRunning, api.JobCompleting}, "B": {api.JobRunning}, "M": {api.JobRunning},
	"S": {api.JobRunning}, "U": {api.JobRunning}, "E": {api.JobCompleting},
}

func sameState(letter string, job api.Job) bool {
	if states, ok := letters[letter]; ok {
		return slices.Contains(states, job.State)
	}
	return job.State.Ended()
}

// qstatSample compares with both the job that a record becomes and the record.
func qstatSample(r record) jobtest.Record {
	job := r.job()
	user, _, _ := strings.Cut(r["Job_Owner"], "@")
	equal := jobtest.Facts(map[string]string{
		"id": job.ID, "name": job.Name, "user": user, "workdir": r.workdir(), "queue": r["queue"], "substate": r["substate"], "hold": r["Hold_Types"],
		"comment": r["comment"], "submit_arguments": r["Submit_arguments"],
	})
	return jobtest.Record{ID: r["Job Id"], Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "state":
			return r["job_state"] + " " + string(job.State), r["job_state"] == want && sameState(want, job), true
		case "node":
			got := firstNode(r["exec_host"])
			return got, got == want && (job.Node == want || job.State.Waiting()), true
		case "output_path":
			got, _ := r.output(job)
			_, path, _ := strings.Cut(want, ":")
			return got, got == want || got == path, true
		case "submit":
			return sameTime(job.Submitted, want)
		case "start":
			return sameTime(job.Start, want)
		case "end":
			return sameTime(job.End, want)
		case "estimated":
			return sameTime(job.ExpectedStart, want)
		case "timelimit":
			got := sched.ParseClockTime(r["Resource_List.walltime"])
			return got.String(), got > 0 && got == sched.ParseClockTime(want), true
		case "exit":
			return r["Exit_status"], r["Exit_status"] == want && sameExit(want, job), true
		}
		return equal(name, want)
	}}
}

func sameTime(got time.Time, want string) (string, bool, bool) {
	return got.Format(time.ANSIC), got.Format(time.ANSIC) == want, true
}

// sameExit: an exit status is the job's own from 0 to 255, a signal above 256, and PBS's
// own below 0; a job that did not run has none.
func sameExit(want string, job api.Job) bool {
	status, err := strconv.Atoi(want)
	if status > 256 {
		status += 128 - 256
	}
	none := status < 0 || job.State == api.JobNeverRan
	return err == nil && (none && job.Exit == nil || !none && job.Exit != nil && *job.Exit == status)
}

// tableSample compares a line of a table; the program drops the server's name if that is cut.
func tableSample(row qstatRow) jobtest.Record {
	job := row.job(time.Now())
	id := row.cell(headID)
	return jobtest.Record{ID: id, Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return id, id == want && strings.HasPrefix(want, job.ID), true
		case "state":
			return row.cell(headState), row.cell(headState) == want && sameState(want, job), true
		}
		return jobtest.Facts(map[string]string{
			"name": job.Name, "user": row.cell(headUser), "queue": row.cell(headQueue), "node": job.Node, "comment": row.note,
		})(name, want)
	}}
}

// qsubSample compares what the program reads in the answer to a submission.
func qsubSample(s jobtest.Sample) jobtest.Record {
	id, err := scheduler{}.ParseSubmit(s.Result)
	said := ""
	if refused, ok := errors.AsType[*api.Error](err); ok {
		said = refused.Message
	}
	return jobtest.Record{ID: id, Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return id, id == want, true
		case "text":
			for line := range strings.Lines(want) {
				line = strings.TrimSpace(strings.TrimPrefix(line, "qsub: "))
				if !strings.Contains(said, line) {
					return said, false, true
				}
			}
			return said, said != "", true
		}
		return "", false, false
	}}
}

func TestSamples(t *testing.T) { jobtest.CheckSamples(t, "pbs", readSample) }
