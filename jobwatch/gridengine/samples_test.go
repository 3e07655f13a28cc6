package gridengine

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/sched"
)

// readSample is the sampleReader of Grid Engine.
func readSample(s jobtest.Sample) ([]jobtest.Record, string) {
	program, _, _ := strings.Cut(s.Command, " ")
	out := string(s.Result.Stdout)
	switch {
	case program == "qsub":
		return []jobtest.Record{qsubAnswerSample(s)}, ""
	case program == "qacct" && s.Result.Exit != 0:
		return nil, "failures of qacct, which the program takes for a job that is not there"
	case program == "qacct":
		return qacctSamples(out, s.Facts), ""
	case program != "qstat" && program != "qalter":
		return nil, "answers of " + program + ", which the program does not read"
	case program == "qalter":
		return []jobtest.Record{verificationSample(s)}, ""
	case s.Result.Exit != 0:
		return []jobtest.Record{{Fact: jobtest.OnlyText(sched.LastErrorLine(s.Result))}}, ""
	case !strings.Contains(out, "<?xml"):
		return nil, "a table or a text; the program asks for XML"
	case strings.Contains(out, "<unknown_jobs"), strings.Contains(out, "<cluster_queue_summary"):
		return []jobtest.Record{{Fact: jobtest.Facts(map[string]string{"id": ""})}}, ""
	case strings.Contains(out, "<detailed_job_info"):
		var records []jobtest.Record
		for _, r := range parseRecords(out) {
			records = append(records, recordSample(r))
		}
		return records, ""
	}
	rows, err := parseList(out)
	if err != nil {
		return nil, "a list that is cut short, which the program does not take for a list"
	}
	var records []jobtest.Record
	for _, r := range rows {
		record := rowSample(r)
		if slices.ContainsFunc(s.Facts, func(f map[string]string) bool { return f["id"] == r.number }) {
			record.ID = r.number // of an array
		}
		records = append(records, record)
	}
	return records, ""
}

// states are the states that letters may mean.
var states = map[string][]api.JobState{
	"r": {api.JobRunning}, "hr": {api.JobRunning}, "Rr": {api.JobRunning}, "s": {api.JobRunning}, "S": {api.JobRunning}, "T": {api.JobRunning},
	"t": {api.JobConfiguring}, "qw": {api.JobQueued}, "Rq": {api.JobQueued}, "hqw": {api.JobHeld}, "Eqw": {api.JobHeld},
	"dr": {api.JobCompleting}, "dt": {api.JobCompleting}, "z": {api.JobFinished},
}

func rowSample(r row) jobtest.Record {
	job := r.job()
	return jobtest.Record{ID: job.ID, Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return job.ID, job.ID == want || r.number == want, true
		case "state":
			return r.state + " " + string(job.State), r.state == want && slices.Contains(states[want], job.State), true
		case "queue":
			got := r.queue + "@" + r.node
			queue, node, _ := strings.Cut(want, "@")
			return got, r.queue == queue && api.SameNode(r.node, node), true
		case "limit":
			return r.limit.String(), r.limit == sched.ParseClockTime(want), true
		}
		return jobtest.Facts(map[string]string{"name": job.Name, "start": r.start.Format("2006-01-02T15:04:05")})(name, want)
	}}
}

func recordSample(r record) jobtest.Record {
	equal := jobtest.Facts(map[string]string{
		"id": r.number, "name": r.name, "script": r.script, "workdir": r.folder(), "stdout": r.stdout, "stderr": r.stderr,
		"submit": r.submitted.Format("2006-01-02T15:04:05"), "error": r.cause(row{}),
	})
	return jobtest.Record{ID: r.number, Fact: func(name, want string) (string, bool, bool) {
		if name == "wait" {
			_, line := sched.BestMatch(waitReasons, r.messages...)
			return line, line == want, true
		}
		return equal(name, want)
	}}
}

// lineAfter is the line of a record below that of a label. In the index of the public samples,
// three facts of qacct have it instead of their own.
func lineAfter(record, label string) string {
	m := regexp.MustCompile(`(?m)^` + label + `\b.*\n(.*)$`).FindStringSubmatch(record)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

func qacctSamples(out string, facts []map[string]string) []jobtest.Record {
	texts := map[string]string{} // by id, of the last run
	for text := range strings.SplitSeq(out, "==============================================================\n") {
		for _, a := range parseQacct(text) {
			texts[a.id()] = text
		}
	}
	var records []jobtest.Record
	for _, a := range parseQacct(out) {
		record := qacctSample(a, texts[a.id()])
		if next := lineAfter(texts[a.id()], "jobnumber"); slices.ContainsFunc(facts, func(f map[string]string) bool { return f["id"] == next }) {
			record.ID = next
		}
		records = append(records, record)
	}
	return records
}

func qacctSample(a account, text string) jobtest.Record {
	job := a.job()
	id := a.id()
	labels := map[string]string{"id": "jobnumber", "failed": "failed", "exit": "exit_status"}
	return jobtest.Record{ID: id, Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id", "failed", "exit":
			got := a[labels[name]]
			same := got == want || name == "id" && id == want || lineAfter(text, labels[name]) == strings.TrimSpace(want)
			return got, same, true
		case "node":
			return job.Node, api.SameNode(job.Node, want), true
		case "start":
			return job.Start.String(), !job.Start.IsZero() && job.Start.Equal(sched.ParseTime(want)), true
		case "end":
			return job.End.String(), !job.End.IsZero() && job.End.Equal(sched.ParseTime(want)), true
		}
		return jobtest.Facts(map[string]string{"name": job.Name, "queue": job.Queue, "state": string(job.State)})(name, want)
	}}
}

func qsubAnswerSample(s jobtest.Sample) jobtest.Record {
	id, err := newScheduler().ParseSubmit(s.Result)
	refused, _ := errors.AsType[*api.Error](err)
	return jobtest.Record{ID: id, Fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return id, id == want, true
		case "text":
			return refused.Message, strings.HasSuffix(refused.Message, want), true
		case "cause":
			return refused.Hint, refused.Hint != "" && refused.Hint != sched.SiteRuleHint, true
		}
		return "", false, false
	}}
}

func verificationSample(s jobtest.Sample) jobtest.Record {
	v := parseVerification(s.Result)
	return jobtest.Record{Fact: func(name, want string) (string, bool, bool) {
		switch {
		case v == nil:
			return "no verdict", false, true
		case name == "never":
			return v.Words, v.Never == (want == "true"), true
		}
		return "", false, false
	}}
}

func TestSamples(t *testing.T) {
	jobtest.CheckSamples(t, "gridengine", readSample)
}
