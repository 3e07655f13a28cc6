package slurm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/sched"
)

// readSample is the sampleReader of Slurm.
func readSample(s jobtest.Sample) ([]jobtest.Record, string) {
	program, _, _ := strings.Cut(s.Command, " ")
	program = filepath.Base(program)
	switch {
	case strings.Contains(s.Command, "json") || strings.Contains(s.Command, "yaml"):
		return nil, "answers of " + program + " as JSON or YAML, which the program never asks for"
	case program == "scontrol" && strings.Contains(s.Command, "show job") && s.Result.Exit == 0:
		var records []jobtest.Record
		for _, r := range splitScontrol(string(s.Result.Stdout)) {
			records = append(records, scontrolSample(r))
		}
		return records, ""
	case program == "sbatch":
		return []jobtest.Record{sbatchSample(s)}, ""
	case program == "sacct" && sacctColumns(s) != "":
		return sacctSamples(s), ""
	case s.Result.Exit != 0:
		return []jobtest.Record{failureSample(program, s)}, ""
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
func scontrolSample(r record) jobtest.Record {
	job := r.job()
	group, _, _ := strings.Cut(r["GroupId"], "(")
	equal := jobtest.Facts(map[string]string{"name": job.Name, "partition": job.Queue, "queue": job.Queue, "user": r.user(), "group": group})
	return jobtest.Record{ID: r["JobId"], Fact: func(name, want string) (string, bool, bool) {
		if got, same, read := equal(name, want); read {
			return got, same, read
		}
		switch name {
		case "id":
			got, _, _ := strings.Cut(cmp.Or(r["ArrayJobId"], job.ID), "_")
			return got, r["JobId"] == want || got == want || job.ID == want, true
		case "state":
			return sampleState(want, job)
		case "reason":
			told := job.Reason == strings.ReplaceAll(want, "_", " ") || r["JobState"] == "SUSPENDED"
			return r["Reason"], r["Reason"] == want && (told || known(want) == ""), true
		case "node":
			return job.Node, api.SameNode(job.Node, want), true
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
func (r record) byName(fact string) (string, bool) {
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
func sbatchSample(s jobtest.Sample) jobtest.Record {
	ref, err := newScheduler().ParseSubmit(s.Result)
	id, cluster, _ := strings.Cut(ref, ";")
	refused, _ := errors.AsType[*api.Error](err)
	return jobtest.Record{ID: id, Fact: func(name, want string) (string, bool, bool) {
		if name != "cause" {
			return jobtest.Facts(map[string]string{"id": id, "cluster": cluster})(name, want)
		}
		// The index words causes its own way: compare only whether there is one.
		if refused == nil {
			return "no refusal", errors.Is(err, sched.ErrDoubt), true
		}
		return refused.Message, refused.Hint != "", true
	}}
}

// failureSample compares what the program reads in a failed query.
func failureSample(program string, s jobtest.Sample) jobtest.Record {
	err := problem(program, s.Result)
	return jobtest.Record{Fact: func(name, _ string) (string, bool, bool) {
		return fmt.Sprint(err), err != nil, name == "cause"
	}}
}

var sacctHeader = regexp.MustCompile(`^JobID(?:Raw)?\|.*State`)

// sacctColumns are the columns of sacct -p or -P, empty for a table.
func sacctColumns(s jobtest.Sample) string {
	header, _, _ := strings.Cut(string(s.Result.Stdout), "\n")
	if !sacctHeader.MatchString(header) {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(header, "|"), "|", ",")
}

// sacctSamples converts the columns of sacct -p or -P to those of our query.
func sacctSamples(s jobtest.Sample) []jobtest.Record {
	_, rest, _ := strings.Cut(string(s.Result.Stdout), "\n")
	var records []jobtest.Record
	for _, job := range parseSacct(columns(rest, sacctColumns(s), sacctFields, "|", "\n")) {
		records = append(records, jobtest.Record{ID: job.ID, Fact: func(name, want string) (string, bool, bool) {
			switch name {
			case "state":
				return sampleState(want, job)
			case "submit", "start", "end":
				return sampleTime(name, want, job)
			}
			return jobtest.Facts(map[string]string{"id": job.ID, "name": job.Name, "partition": job.Queue, "node": job.Node})(name, want)
		}})
	}
	return records
}

func TestSamples(t *testing.T) { jobtest.CheckSamples(t, "slurm", readSample) }

func TestSamplesAnywhere(t *testing.T) {
	root := t.TempDir()
	record := "# cmd: scontrol show job 7  # rc: 0\nJobId=7 JobName=nb UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING Reason=None NodeList=n1 Command=/a WorkDir=/w StdOut=/w/o\n"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := func(file, command, facts string) string {
		return file + "\t" + command + "\t-\t" + facts + "\tmade up\n"
	}
	const head = "file\tcommand\tversion\tfacts\tsource\n"
	write("elsewhere/deep/a.txt", record)
	write("elsewhere/index.tsv", head+line("a.txt", "scontrol show job 7", `{"id": "7", "name": "nb", "stdout": "/w/o", "colour": "red"}`))
	write("in/other/b.txt", "whatever")
	write("in/other/index.tsv", head+line("b.txt", "bjobs", `{"ids": ["1"]}`)+line("gone.txt", "squeue", `{}`))
	write("in/wrong/c.txt", record)
	write("in/wrong/index.tsv", head+line("c.txt", "scontrol show job 7", `[{"id": "7", "state": "PENDING"}, {"id": "8"}]`))
	if err := os.Symlink(filepath.Join(root, "elsewhere"), filepath.Join(root, "in", "linked")); err != nil {
		t.Skip("no links here: ", err)
	}
	r := jobtest.CompareSamples(filepath.Join(root, "in"), "slurm", readSample)
	notes, problems := strings.Join(r.Notes, "\n"), strings.Join(r.Problems, "\n")
	if r.Compared != 3+2+1 {
		t.Errorf("%d facts were compared:\n%s\n%s", r.Compared, notes, problems)
	}
	for _, want := range []string{
		filepath.Join("wrong", "c.txt") + `: fact "state": expected "PENDING", got "running"`, `fact "id": expected "8", got no such record`, `line 3: there is no file "gone.txt"`,
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems lack %q:\n%s", want, problems)
		}
	}
	if len(r.Problems) != 3 || !strings.Contains(notes, `samples of "lsf"`) {
		t.Errorf("%s\n%s", notes, problems)
	}
	if r := jobtest.CompareSamples(filepath.Join(root, "in", "other"), "slurm", readSample); !strings.Contains(strings.Join(r.Problems, "\n"), "no fact was compared") {
		t.Errorf("a folder without facts passes: %q", r.Problems)
	}
}
