package jobwatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// capture is the recorded answer of a real scheduler.
type capture struct {
	name, command string
	res           remote.Result
}

var (
	captureHead   = regexp.MustCompile(`(?s)^# cmd: (.*?)  # rc: (\d+)\n`)
	captureStderr = regexp.MustCompile(`(?m)^# (?:stderr:|--- stderr ---)\n`)
)

// captures reads those of one scheduler from the folder that TUNCTL_CAPTURES names.
func captures(t *testing.T, scheduler string) []capture {
	t.Helper()
	folder := os.Getenv("TUNCTL_CAPTURES")
	if folder == "" {
		t.Skip("TUNCTL_CAPTURES names no folder")
	}
	folder = filepath.Join(folder, scheduler)
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("TUNCTL_CAPTURES has no folder %q", scheduler)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures in %q (%v)", folder, err)
	}
	var list []capture
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if captureHead.Match(data) { // else a note, not an answer
			list = append(list, parseCapture(file, data))
		}
	}
	return list
}

// enoughRead fails if suspiciously few jobs were read. For a folder with an index, see
// TestPublicCapturesMatchTheirIndex.
func enoughRead(t *testing.T, scheduler string, read int) {
	t.Helper()
	_, err := os.Stat(filepath.Join(os.Getenv("TUNCTL_CAPTURES"), scheduler, sampleIndex))
	if err != nil && read < 150 {
		t.Errorf("only %d jobs were read", read)
	}
	t.Logf("%d jobs read", read)
}

// slurmStates are what the captures' names say, the longest beginning first.
var slurmStates = []struct {
	prefix string
	state  api.JobState
}{
	{"pending_held_", api.JobHeld},
	{"pending_", api.JobQueued},
	{"completed.", api.JobFinished},
	{"aged.", api.JobFinished},
	{"failed", api.JobFailed},
	{"oom.", api.JobFailed}, // without cgroups it was "FAILED 0:9"
	{"bad_chdir.", api.JobFailed},
	{"odd_missing_outdir.", api.JobFailed},
	{"odd_name_long.", api.JobFailed},
	{"cancelled", api.JobCancelled},
	{"timeout.", api.JobTimeout},
	{"deadline.", api.JobTimeout},
	{"nodefail.", api.JobNodeFail},
	{"nodefail_requeued.", api.JobQueued},
	{"preempted.", api.JobPreempted},
	{"preempted_requeued.", api.JobQueued},
	{"preempting.", api.JobRunning},
	{"requeued.", api.JobQueued},
	{"running.", api.JobRunning},
	{"suspended.", api.JobRunning},
	{"completing.", api.JobCompleting},
	{"odd_name_", api.JobRunning},
	{"odd_gpu.", api.JobRunning},
	{"odd_het.", api.JobRunning},
}

func TestEverySlurmCaptureIsReadAsItsNameSays(t *testing.T) {
	read := 0
	for _, c := range captures(t, "slurm") {
		jobs := slurmCaptured(c)
		for _, job := range jobs {
			read++
			if job.ID == "" || job.State == "" || job.State == api.JobUnknown {
				t.Errorf("%s: %+v", c.name, job)
			}
			for _, s := range slurmStates {
				if strings.HasPrefix(c.name, s.prefix) && !strings.Contains(c.name, "after_cancel") {
					// The accounting is late; it is queried for ended jobs only.
					late := strings.HasPrefix(c.command, "sacct") && !s.state.Ended()
					if job.State != s.state && !late {
						t.Errorf("%s: job %s is %q, want %q (%q)", c.name, job.ID, job.State, s.state, c.res.Stdout)
					}
					break
				}
			}
			if strings.HasPrefix(c.name, "pending_") && job.Reason != "" && job.Hint == "" {
				t.Errorf("%s: no words for %q", c.name, job.Reason)
			}
		}
		checkSlurmErrors(t, c)
	}
	enoughRead(t, "slurm", read)
}

// slurmCaptured reads the jobs of a capture. Captures with other columns are converted to
// those of our query.
func slurmCaptured(c capture) []api.Job {
	out := string(c.res.Stdout)
	switch {
	case strings.Contains(c.command, "json") || strings.Contains(c.command, ";"):
		return nil
	case strings.HasPrefix(c.command, "scontrol show job"):
		return parseScontrol(out)
	case strings.HasPrefix(c.command, "sacct -X -n -P"):
		return parseSacct(columns(out, "JobID,State,ExitCode,Start,End,NodeList,Reason", sacctFields, "|", "\n"))
	case strings.HasPrefix(c.command, "sacct") && strings.HasPrefix(out, "JobID|JobIDRaw|"):
		header, rest, _ := strings.Cut(out, "\n")
		var kept []string
		for line := range strings.Lines(rest) {
			if id, _, _ := strings.Cut(line, "|"); !strings.Contains(id, ".") {
				kept = append(kept, line)
			}
		}
		return parseSacct(columns(strings.Join(kept, ""), strings.ReplaceAll(header, "|", ","), sacctFields, "|", "\n"))
	case strings.Contains(c.command, "-o '%i|%T|%r|%N|%M|%l|%S|%o|%j|%Z'") && !strings.Contains(c.name, "name_pipe"):
		return parseSqueue(columns(out, "JobID,State,Reason,NodeList,TimeUsed,TimeLimit,StartTime,Command,Name,WorkDir",
			strings.Join(squeueFields, ","), fieldEnd, recordEnd))
	}
	return nil
}

// columns converts the records of out to other columns.
func columns(out, have, want, separator, end string) string {
	names := strings.Split(have, ",")
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		values := map[string]string{}
		for i, v := range strings.Split(line, "|") {
			if i < len(names) {
				values[names[i]] = v
			}
		}
		if len(values) < 2 {
			continue
		}
		var record []string
		for name := range strings.SplitSeq(want, ",") {
			record = append(record, values[name])
		}
		b.WriteString(strings.Join(record, separator) + end)
	}
	return b.String()
}

func checkSlurmErrors(t *testing.T, c capture) {
	program, _, _ := strings.Cut(c.command, " ")
	switch {
	case strings.HasSuffix(c.name, ".sbatch") || strings.HasPrefix(c.name, "sbatch_p") || strings.HasPrefix(c.name, "err.") && strings.Contains(c.command, "sbatch ") && c.res.Exit != 0:
		id, err := newSlurm().ParseSubmit(c.res)
		refused, _ := errors.AsType[*api.Error](err)
		switch {
		case strings.Contains(c.name, "hung"):
			if !errors.Is(err, sched.ErrDoubt) {
				t.Errorf("%s: %q, %v, want doubt", c.name, id, err)
			}
		case c.res.Exit == 0 && strings.Contains(c.command, "--parsable"):
			if id == "" || err != nil {
				t.Errorf("%s: %q, %v", c.name, id, err)
			}
		case c.res.Exit != 0:
			if refused == nil || refused.Code != api.CodeSubmit || refused.Hint == "" && !strings.Contains(c.name, "node") && !strings.Contains(c.name, "begin") {
				t.Errorf("%s: %#v", c.name, err)
			}
		}
	case strings.HasPrefix(c.name, "ctld_") && (program == "squeue" || program == "scontrol" && strings.Contains(c.command, "show")) && c.res.Exit != 0:
		if err := slurmProblem(program, c.res); !errors.Is(err, remote.ErrNoAnswer) {
			t.Errorf("%s: %v, want no answer", c.name, err)
		}
	case strings.HasPrefix(c.name, "err.unknown_job.s") && c.res.Exit != 0:
		if err := slurmProblem(program, c.res); !errors.Is(err, sched.ErrNoJob) {
			t.Errorf("%s: %v, want no such job", c.name, err)
		}
	}
}

// pbsStates are what the captures' names say.
var pbsStates = []struct {
	part  string
	state api.JobState
}{
	{"after_qhold_running", api.JobRunning},
	{"array", ""},
	{"two_ids", ""},
	{"three_ids", ""},
	{"_all", ""},
	{"json_u", ""},
	{"known_unknown", ""},
	{"subjob", api.JobRunning},
	{"in_epilogue_still_R", api.JobRunning},
	{"after_qdel_still_R", api.JobCompleting},
	{"right_after_qdel", api.JobCompleting},
	{"running_plus_finished", api.JobRunning},
	{"running_finished", ""},
	{"exiting", api.JobCompleting},
	{"held", api.JobHeld},
	{"queued_comment", api.JobQueued},
	{"estimated", api.JobQueued},
	{"waiting", api.JobQueued},
	{"exit0", api.JobFinished},
	{"exit3", api.JobFailed},
	{"exit255", api.JobFailed},
	{"undelivered", api.JobFailed},
	{"qdel_queued", api.JobCancelled},
	{"qdel_running", api.JobCancelled},
	{"qdel_force", api.JobCancelled},
	{"walltime_exceeded", api.JobTimeout},
	{"mem_exceeded", api.JobOOM},
	{"depend_failed", api.JobNeverRan},
	{"sigkill", api.JobFailed},
	{"node_down_queued", api.JobQueued},
	{"node_down", ""},
	{"routed_jupyter", api.JobRunning},
	{"routed", api.JobFinished},
	{"running", api.JobRunning},
	{"after_rerun", api.JobRunning},
	{"weird_env", api.JobRunning},
	{"finished", ""},
}

func TestEveryPBSCaptureIsReadAsItsNameSays(t *testing.T) {
	read := 0
	for _, c := range captures(t, "pbs") {
		for _, job := range pbsCaptured(c) {
			read++
			if job.ID == "" || job.State == "" || job.State == api.JobUnknown || job.Name == "" || job.Submitted.IsZero() {
				t.Errorf("%s: %+v", c.name, job)
			}
			for _, s := range pbsStates {
				if strings.Contains(c.name, s.part) {
					if s.state != "" && job.State != s.state {
						t.Errorf("%s: job %s is %q, want %q", c.name, job.ID, job.State, s.state)
					}
					break
				}
			}
		}
		checkPBSErrors(t, c)
	}
	enoughRead(t, "pbs", read)
}

// pbsCaptured reads the jobs of a capture. Valid JSON answers are converted to the text that
// our query gets.
func pbsCaptured(c capture) []api.Job { return sched.JobsFrom(capturedRecords(c), pbsRecord.job) }

func capturedRecords(c capture) []pbsRecord {
	out := string(c.res.Stdout)
	if strings.Contains(c.command, "-F dsv") {
		return nil
	}
	if !strings.Contains(c.command, "json") {
		return splitQstat(out)
	}
	var doc struct{ Jobs map[string]map[string]any }
	decoder := json.NewDecoder(bytes.NewReader(c.res.Stdout))
	decoder.UseNumber()
	if decoder.Decode(&doc) != nil {
		return nil
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(doc.Jobs)) {
		fmt.Fprintf(&b, "Job Id: %s\n", id)
		for key, value := range doc.Jobs[id] {
			group, ok := value.(map[string]any)
			if !ok {
				fmt.Fprintf(&b, "    %s = %v\n", key, value)
				continue
			}
			for name, v := range group {
				fmt.Fprintf(&b, "    %s.%s = %v\n", key, name, v)
			}
		}
	}
	return splitQstat(b.String())
}

var serverGone = regexp.MustCompile(`_server_(?:down|hung|unresolvable)`)

func checkPBSErrors(t *testing.T, c capture) {
	program, _, _ := strings.Cut(c.command, " ")
	switch {
	case program == "qsub" && !strings.ContainsAny(c.command, ";|"):
		id, err := pbs{}.ParseSubmit(c.res)
		refused, _ := errors.AsType[*api.Error](err)
		switch {
		case strings.Contains(c.name, "hung"):
			if !errors.Is(err, sched.ErrDoubt) {
				t.Errorf("%s: %q, %v, want doubt", c.name, id, err)
			}
		case c.res.Exit == 0:
			if id != strings.TrimSpace(string(c.res.Stdout)) {
				t.Errorf("%s: %q, %v", c.name, id, err)
			}
		case refused == nil || refused.Code != api.CodeSubmit || refused.Hint == "" && !strings.Contains(c.name, "no_tty"):
			t.Errorf("%s: %#v", c.name, err)
		}
	case program == "qstat" && serverGone.MatchString(c.name):
		if err := pbsProblem(program, c.res); !errors.Is(err, remote.ErrNoAnswer) {
			t.Errorf("%s: %v, want no answer", c.name, err)
		}
	case program == "qstat" && (c.res.Exit == 153 || c.res.Exit == 35) && len(c.res.Stdout) == 0:
		if err := pbsProblem(program, c.res); !errors.Is(err, sched.ErrNoJob) {
			t.Errorf("%s: %v, want no such job", c.name, err)
		}
	}
}
