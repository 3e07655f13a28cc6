package facts

import (
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

func TestAnEndIsToldFromAFailure(t *testing.T) {
	now := time.Now()
	exit, lab := 3, configs.Session{Name: "lab", Host: "narval", Submit: "~/lab.sh"}
	failed := EndedError(lab, &api.Job{ID: "7", State: api.JobFailed, Exit: &exit}, false, "no such module", "fix the job script", now)
	if failed.Code != api.CodeFailed || !strings.Contains(failed.Message, "job 7 failed with exit status 3, before it served anything") ||
		!strings.Contains(failed.Message, "no such module") {
		t.Errorf("a job that never served: %+v", failed)
	}
	unrouted := EndedError(lab, &api.Job{ID: "7", State: api.JobNeverRan, Hint: "no queue accepts it"}, false, "", "fix the job script", now)
	if !strings.HasPrefix(unrouted.Hint, "no queue accepts it") || strings.Contains(unrouted.Hint, "log") {
		t.Errorf("a job that never ran: %+v", unrouted)
	}
	gone := EndedError(lab, &api.Job{ID: "7", State: api.JobFinished, Reason: api.ReasonGone, Hint: "how it ended is not known"}, true, "", "", now)
	if !strings.Contains(gone.Message, "how it ended is not known") {
		t.Errorf("a job that is gone: %+v", gone)
	}
	ended := EndedError(lab, &api.Job{ID: "7", State: api.JobTimeout}, true, "", "", now)
	if ended.Code != api.CodeJobEnded || ended.Message != "job 7 reached its time limit" {
		t.Errorf("a job that served: %+v", ended)
	}
	killed := WithLog(api.Job{ID: "7", State: api.JobFailed}, "slurmstepd-cn01: error: StepId=1.batch exceeded memory limit (912060416 > 838860800), being killed\nmore", false)
	if text := EndText(&killed, now); text != "job 7 ran out of memory" {
		t.Errorf("a job that Slurm killed for its memory: %q", text)
	}
	lab.Submit = ""
	for _, e := range []*api.Error{
		EndedError(lab, &api.Job{ID: "7", State: api.JobTimeout}, true, "", "", now),
		EndedError(lab, &api.Job{ID: "7", State: api.JobFailed}, false, "", "fix the job script", now),
	} {
		if !strings.Contains(e.Hint, "start the job on narval") || strings.Contains(e.Hint, "starts a new one") {
			t.Errorf("nothing submits this session's job, and the hint is %q", e.Hint)
		}
	}
}

func TestAJobToWorkInThatEndsEarlyIsNotSaidToHaveServed(t *testing.T) {
	e := EndedError(configs.Session{Name: "work", App: configs.ShellApp, Submit: "builtin:shell"}, &api.Job{ID: "7", State: api.JobFailed}, false, "", "change venv", time.Now())
	if e.Message != "job 7 failed, before a command was run inside" {
		t.Errorf("it says %q", e.Message)
	}
}

func TestMarksLongerThanTheJobAreNone(t *testing.T) {
	now := time.Now()
	marks := []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Minute}
	tests := []struct {
		name        string
		total, left time.Duration
		state       api.JobState
		mark        time.Duration
		next        time.Duration // before the end
	}{
		{"far away", 8 * time.Hour, 4 * time.Hour, api.JobRunning, 0, 30 * time.Minute},
		{"at the first", 8 * time.Hour, 30 * time.Minute, api.JobRunning, 30 * time.Minute, 10 * time.Minute},
		{"between", 8 * time.Hour, 11 * time.Minute, api.JobRunning, 30 * time.Minute, 10 * time.Minute},
		{"at the last", 8 * time.Hour, time.Minute, api.JobRunning, 2 * time.Minute, 0},
		{"a short job", 20 * time.Minute, 19 * time.Minute, api.JobRunning, 0, 10 * time.Minute},
		{"a very short job", time.Minute, 30 * time.Second, api.JobRunning, 0, 0},
		{"the scheduler is silent", 8 * time.Hour, 9 * time.Minute, api.JobUnknown, 10 * time.Minute, 2 * time.Minute},
	}
	for _, tt := range tests {
		job := api.Job{State: tt.state, Start: now.Add(tt.left - tt.total), End: now.Add(tt.left)}
		mark, next := PassedMark(marks, job, now)
		if mark != tt.mark || !next.Equal(job.End.Add(-tt.next)) {
			t.Errorf("%s: mark %v next %v before the end, want %v and %v", tt.name, mark, job.End.Sub(next), tt.mark, tt.next)
		}
	}
	for _, state := range []api.JobState{api.JobQueued, api.JobTimeout} {
		if mark, next := PassedMark(marks, api.Job{State: state, End: now.Add(time.Minute)}, now); mark != 0 || !next.IsZero() {
			t.Errorf("a job that is %s: mark %v", state, mark)
		}
	}
}

func TestUnused(t *testing.T) {
	log := "x\ntunctl: end_idle: not used; the job ends at 2026-11-19T16:05:00Z\ny\n"
	if end, said := IdleEnd([]byte(log)); !said || !end.Equal(time.Date(2026, 11, 19, 16, 5, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", end, said)
	}
	if end, said := IdleEnd([]byte(log + "tunctl: end_idle: the job is used again\n")); !said || !end.IsZero() {
		t.Errorf("%v, %v", end, said)
	}
	if _, said := IdleEnd([]byte("tunctl: end_idle: a job of several nodes is not ended\n")); said {
		t.Error("a line that says no end")
	}
	j := WithLog(api.Job{ID: "7", State: api.JobFinished}, log+"tunctl: the job ended after 120 minutes without use (end_idle)\n", true)
	if text := EndText(&j, time.Now()); !j.Unused() || text != "job 7 ended automatically after 120 minutes without use" {
		t.Errorf("%q", text)
	}
	for _, used := range []api.Job{
		WithLog(api.Job{State: api.JobFinished}, log, true), WithLog(api.Job{State: api.JobFinished}, "", false), WithLog(api.Job{State: api.JobTimeout}, "", true),
		WithLog(Gone(api.Job{}), "", true), WithLog(api.Job{State: api.JobFinished, Log: "/home/ann/nb.log"}, "", true), // not read just now
	} {
		if used.Unused() {
			t.Errorf("%+v", used)
		}
	}
	j = WithLog(api.Job{ID: "7", State: api.JobFinished}, "", true)
	if text := EndText(&j, time.Now()); !j.Unused() || text != "job 7 ended with no log that is known, perhaps without use" {
		t.Errorf("%q", text)
	}
}
