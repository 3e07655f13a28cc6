package slurm

import (
	"errors"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// captureStates are what the captures' names say, the longest beginning first.
var captureStates = []struct {
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
	for _, c := range jobtest.Captures(t, "slurm") {
		jobs := captured(c)
		for _, job := range jobs {
			read++
			if job.ID == "" || job.State == "" || job.State == api.JobUnknown {
				t.Errorf("%s: %+v", c.Name, job)
			}
			for _, s := range captureStates {
				if strings.HasPrefix(c.Name, s.prefix) && !strings.Contains(c.Name, "after_cancel") {
					// The accounting is late; it is queried for ended jobs only.
					late := strings.HasPrefix(c.Command, "sacct") && !s.state.Ended()
					if job.State != s.state && !late {
						t.Errorf("%s: job %s is %q, want %q (%q)", c.Name, job.ID, job.State, s.state, c.Result.Stdout)
					}
					break
				}
			}
			if strings.HasPrefix(c.Name, "pending_") && job.Reason != "" && job.Hint == "" {
				t.Errorf("%s: no words for %q", c.Name, job.Reason)
			}
		}
		checkErrors(t, c)
	}
	jobtest.EnoughRead(t, "slurm", read)
}

// captured reads the jobs of a capture. Captures with other columns are converted to
// those of our query.
func captured(c jobtest.Capture) []api.Job {
	out := string(c.Result.Stdout)
	switch {
	case strings.Contains(c.Command, "json") || strings.Contains(c.Command, ";"):
		return nil
	case strings.HasPrefix(c.Command, "scontrol show job"):
		return parseScontrol(out)
	case strings.HasPrefix(c.Command, "sacct -X -n -P"):
		return parseSacct(columns(out, "JobID,State,ExitCode,Start,End,NodeList,Reason", sacctFields, "|", "\n"))
	case strings.HasPrefix(c.Command, "sacct") && strings.HasPrefix(out, "JobID|JobIDRaw|"):
		header, rest, _ := strings.Cut(out, "\n")
		var kept []string
		for line := range strings.Lines(rest) {
			if id, _, _ := strings.Cut(line, "|"); !strings.Contains(id, ".") {
				kept = append(kept, line)
			}
		}
		return parseSacct(columns(strings.Join(kept, ""), strings.ReplaceAll(header, "|", ","), sacctFields, "|", "\n"))
	case strings.Contains(c.Command, "-o '%i|%T|%r|%N|%M|%l|%S|%o|%j|%Z'") && !strings.Contains(c.Name, "name_pipe"):
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

func checkErrors(t *testing.T, c jobtest.Capture) {
	program, _, _ := strings.Cut(c.Command, " ")
	switch {
	case strings.HasSuffix(c.Name, ".sbatch") || strings.HasPrefix(c.Name, "sbatch_p") || strings.HasPrefix(c.Name, "err.") && strings.Contains(c.Command, "sbatch ") && c.Result.Exit != 0:
		id, err := newScheduler().ParseSubmit(c.Result)
		refused, _ := errors.AsType[*api.Error](err)
		switch {
		case strings.Contains(c.Name, "hung"):
			if !errors.Is(err, sched.ErrDoubt) {
				t.Errorf("%s: %q, %v, want doubt", c.Name, id, err)
			}
		case c.Result.Exit == 0 && strings.Contains(c.Command, "--parsable"):
			if id == "" || err != nil {
				t.Errorf("%s: %q, %v", c.Name, id, err)
			}
		case c.Result.Exit != 0:
			if refused == nil || refused.Code != api.CodeSubmit || refused.Hint == "" && !strings.Contains(c.Name, "node") && !strings.Contains(c.Name, "begin") {
				t.Errorf("%s: %#v", c.Name, err)
			}
		}
	case strings.HasPrefix(c.Name, "ctld_") && (program == "squeue" || program == "scontrol" && strings.Contains(c.Command, "show")) && c.Result.Exit != 0:
		if err := problem(program, c.Result); !errors.Is(err, remote.ErrNoAnswer) {
			t.Errorf("%s: %v, want no answer", c.Name, err)
		}
	case strings.HasPrefix(c.Name, "err.unknown_job.s") && c.Result.Exit != 0:
		if err := problem(program, c.Result); !errors.Is(err, sched.ErrNoJob) {
			t.Errorf("%s: %v, want no such job", c.Name, err)
		}
	}
}
