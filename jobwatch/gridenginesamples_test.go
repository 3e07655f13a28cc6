package jobwatch

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// readGridEngineSample is the sampleReader of Grid Engine.
func readGridEngineSample(s sample) ([]sampleRecord, string) {
	program, _, _ := strings.Cut(s.command, " ")
	out := string(s.res.Stdout)
	switch {
	case program == "qsub":
		return []sampleRecord{qsubAnswerSample(s)}, ""
	case program == "qacct" && s.res.Exit != 0:
		return nil, "failures of qacct, which the program takes for a job that is not there"
	case program == "qacct":
		return qacctSamples(out, s.facts), ""
	case program != "qstat" && program != "qalter":
		return nil, "answers of " + program + ", which the program does not read"
	case program == "qalter":
		return []sampleRecord{verdictSample(s)}, ""
	case s.res.Exit != 0:
		return []sampleRecord{{fact: onlyText(sched.LastErrorLine(s.res))}}, ""
	case !strings.Contains(out, "<?xml"):
		return nil, "a table or a text; the program asks for XML"
	case strings.Contains(out, "<unknown_jobs"), strings.Contains(out, "<cluster_queue_summary"):
		return []sampleRecord{{fact: onlyID("")}}, ""
	case strings.Contains(out, "<detailed_job_info"):
		var records []sampleRecord
		for _, r := range parseGERecords(out) {
			records = append(records, geRecordSample(r))
		}
		return records, ""
	}
	rows, err := parseGEList(out)
	if err != nil {
		return nil, "a list that is cut short, which the program does not take for a list"
	}
	var records []sampleRecord
	for _, r := range rows {
		record := geRowSample(r)
		if slices.ContainsFunc(s.facts, func(f map[string]string) bool { return f["id"] == r.number }) {
			record.id = r.number // of an array
		}
		records = append(records, record)
	}
	return records, ""
}

// geStates are the states that letters may mean.
var geStates = map[string][]api.JobState{
	"r": {api.JobRunning}, "hr": {api.JobRunning}, "Rr": {api.JobRunning}, "s": {api.JobRunning}, "S": {api.JobRunning}, "T": {api.JobRunning},
	"t": {api.JobConfiguring}, "qw": {api.JobQueued}, "Rq": {api.JobQueued}, "hqw": {api.JobHeld}, "Eqw": {api.JobHeld},
	"dr": {api.JobCompleting}, "dt": {api.JobCompleting}, "z": {api.JobFinished},
}

func geRowSample(r geRow) sampleRecord {
	job := r.job()
	return sampleRecord{id: job.ID, fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id":
			return job.ID, job.ID == want || r.number == want, true
		case "name":
			return job.Name, job.Name == want, true
		case "state":
			return r.state + " " + string(job.State), r.state == want && slices.Contains(geStates[want], job.State), true
		case "queue":
			got := r.queue + "@" + r.node
			queue, node, _ := strings.Cut(want, "@")
			return got, r.queue == queue && api.SameNode(r.node, node), true
		case "limit":
			got := r.limit.String()
			return got, r.limit == sched.ParseClockTime(want), true
		case "start":
			got := r.start.Format("2006-01-02T15:04:05")
			return got, got == want, true
		}
		return "", false, false
	}}
}

func geRecordSample(r geRecord) sampleRecord {
	facts := map[string]string{
		"id": r.number, "name": r.name, "script": r.script, "workdir": r.folder(), "stdout": r.stdout, "stderr": r.stderr,
		"submit": r.submitted.Format("2006-01-02T15:04:05"), "error": r.cause(geRow{}),
	}
	return sampleRecord{id: r.number, fact: func(name, want string) (string, bool, bool) {
		if name == "wait" {
			_, line := sched.BestMatch(geWaits, r.messages...)
			return line, line == want, true
		}
		got, read := facts[name]
		return got, got == want, read
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

func qacctSamples(out string, facts []map[string]string) []sampleRecord {
	texts := map[string]string{} // by id, of the last run
	for text := range strings.SplitSeq(out, "==============================================================\n") {
		for _, a := range parseQacct(text) {
			texts[a.id()] = text
		}
	}
	var records []sampleRecord
	for _, a := range parseQacct(out) {
		record := qacctSample(a, texts[a.id()])
		if next := lineAfter(texts[a.id()], "jobnumber"); slices.ContainsFunc(facts, func(f map[string]string) bool { return f["id"] == next }) {
			record.id = next
		}
		records = append(records, record)
	}
	return records
}

func qacctSample(a geAccount, text string) sampleRecord {
	job := a.job()
	id := a.id()
	labels := map[string]string{"id": "jobnumber", "failed": "failed", "exit": "exit_status"}
	return sampleRecord{id: id, fact: func(name, want string) (string, bool, bool) {
		switch name {
		case "id", "failed", "exit":
			got := a[labels[name]]
			same := got == want || name == "id" && id == want || lineAfter(text, labels[name]) == strings.TrimSpace(want)
			return got, same, true
		case "name":
			return job.Name, job.Name == want, true
		case "queue":
			return job.Queue, job.Queue == want, true
		case "node":
			return job.Node, api.SameNode(job.Node, want), true
		case "state":
			return string(job.State), string(job.State) == want, true
		case "start":
			return job.Start.String(), !job.Start.IsZero() && job.Start.Equal(sched.ParseTime(want)), true
		case "end":
			return job.End.String(), !job.End.IsZero() && job.End.Equal(sched.ParseTime(want)), true
		}
		return "", false, false
	}}
}

func qsubAnswerSample(s sample) sampleRecord {
	id, err := newGridEngine().ParseSubmit(s.res)
	refused, _ := errors.AsType[*api.Error](err)
	return sampleRecord{id: id, fact: func(name, want string) (string, bool, bool) {
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

func verdictSample(s sample) sampleRecord {
	v := parseVerdict(s.res)
	return sampleRecord{fact: func(name, want string) (string, bool, bool) {
		switch {
		case v == nil:
			return "no verdict", false, true
		case name == "never":
			return v.Words, v.Never == (want == "true"), true
		}
		return "", false, false
	}}
}
