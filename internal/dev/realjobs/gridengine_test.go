//go:build linux

package realjobs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/jobwatch"
	"tunctl/jobwatch/joblog"
)

// untilTold makes a job of Grid Engine wait for fixture.stop.
const untilTold = "while test ! -f ~/stop.$JOB_ID; do sleep 0.2; done\n"

// sharedLogin is a Runner whose commands share one connection, which ends with the test.
func sharedLogin(t *testing.T, lab *real.Lab) login {
	t.Helper()
	dir, err := os.MkdirTemp("", "ge") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	l := login{"-F", lab.SSHConfig(), "-o", "ControlPath=" + filepath.Join(dir, "s"), "-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "lab-login"}
	t.Cleanup(func() {
		if out, err := exec.Command("ssh", append([]string{"-O", "exit"}, l...)...).CombinedOutput(); err != nil {
			t.Errorf("the connection does not end: %v: %s", err, out)
		}
		_ = os.RemoveAll(dir)
	})
	return l
}

// log is what a job has printed: a job is listed as running a moment before its log exists.
func (f *fixture) log(job api.Job) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		text, err := joblog.Tail(ctx, labLogin(f.lab), job.Log, 20)
		if err == nil && len(text) > 0 {
			return string(text)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			f.t.Fatalf("log of job %s: %q, %v", job.ID, text, err)
		}
	}
}

func TestAJobsLifeUnderARealGridEngine(t *testing.T) {
	t.Parallel()
	lab := real.StartWith(t, real.Options{GridEngine: true})
	all := fixtureOver(t, lab, sharedLogin(t, lab)) // one, so that the jobs share its queries
	part := func(name string, body func(f *fixture)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body(&fixture{Watcher: all.Watcher, t: t, lab: all.lab})
		})
	}

	part("it is found, runs, is listed, cannot be extended, and fails with its exit status", func(f *fixture) {
		t := f.t
		if name, err := f.Scheduler(t.Context()); err != nil || name != "gridengine" {
			t.Fatalf("scheduler %q, %v", name, err)
		}
		// Its options count also after the first command.
		job := f.submit("#$ -N lab -cwd -j y\n#$ -o $JOB_NAME.$JOB_ID.log\necho hello\n#$ -l h_rt=0:5:0\n"+untilTold+"exit 3\n", "-pe", "smp", "2")
		if job.Name != "lab" || job.Log != "/home/hpcuser/lab."+job.ID+".log" || !strings.Contains(job.Script, "/.tunctl/t") {
			t.Errorf("submitted %+v", job)
		}
		x := f.watch(job.ID)
		running := f.awaitState(x, api.JobRunning)
		if !strings.HasPrefix(running.Node, "cn0") || running.End.Sub(running.Start) != 5*time.Minute || running.Log != job.Log || running.Queue == "" {
			t.Errorf("running %+v", running)
		}
		listed, err := f.Jobs(t.Context())
		if err != nil || !slices.ContainsFunc(listed, func(j api.Job) bool { return j.ID == job.ID && j.State == api.JobRunning }) {
			t.Errorf("listed as %+v, %v", listed, err)
		}
		if found, ok, err := f.Find(t.Context(), jobwatch.Query{Name: "lab"}); err != nil || !ok || found.ID != job.ID {
			t.Errorf("by name: %+v, %v, %v", found, ok, err)
		}
		said, ok := errors.AsType[*api.Error](f.Extend(t.Context(), job.ID, time.Hour))
		if !ok || !strings.Contains(said.Message, "cannot be changed") || !strings.Contains(said.Hint, "keep = true") {
			t.Errorf("extend said %+v", said)
		}
		f.stop("stop." + job.ID)
		if ended := f.awaitState(x, api.JobFailed); ended.Exit == nil || *ended.Exit != 3 {
			t.Errorf("ended %+v", ended)
		}
		if text := f.log(job); text != "hello\n" {
			t.Errorf("log %q", text)
		}
		recent, err := f.Recent(t.Context())
		if i := slices.IndexFunc(recent, func(j api.Job) bool { return j.ID == job.ID }); err != nil || i < 0 || recent[i].State != api.JobFailed {
			t.Errorf("recent %+v, %v", recent, err)
		}
	})

	part("choices take the place of the script's options", func(f *fixture) {
		const script = "#!/bin/sh\n#$ -l h_rt=0:5:0\n#$ -pe smp 1\n" + untilTold
		s, err := f.Drafts().WithChoices(f.t.Context(), jobwatch.Submission{Content: []byte(script), Base: "job.sh"}, map[string]string{"hours": "0.2", "cpus": "2"})
		if err != nil {
			f.t.Fatal(err)
		}
		job := f.submit(strings.TrimPrefix(script, "#!/bin/sh\n"), s.Args...)
		running := f.awaitState(f.watch(job.ID), api.JobRunning)
		if running.End.Sub(running.Start) != 12*time.Minute {
			f.t.Errorf("running %+v", running)
		}
		f.stop("stop." + job.ID)
	})

	part("a hold is told, and released", func(f *fixture) {
		job := f.submit("#$ -N held -l h_rt=0:1:0\nexit 0\n", "-h")
		x := f.watch(job.ID)
		if held := f.awaitState(x, api.JobHeld); !strings.Contains(held.Hint, "qrls") || held.Log == "" {
			f.t.Errorf("held %+v", held)
		}
		if _, err := f.lab.As("hpcuser", "qrls", job.ID); err != nil {
			f.t.Fatal(err)
		}
		if done := f.awaitState(x, api.JobFinished); done.Exit == nil || *done.Exit != 0 {
			f.t.Errorf("done %+v", done)
		}
	})

	part("a cancelled job ends, whether it ran or not", func(f *fixture) {
		runs, waits := f.submit(untilTold, "-l", "h_rt=0:5:0"), f.submit("true\n", "-h")
		x, y := f.watch(runs.ID), f.watch(waits.ID)
		f.awaitState(x, api.JobRunning)
		f.awaitState(y, api.JobHeld)
		for _, job := range []api.Job{runs, waits} {
			if err := f.Cancel(f.t.Context(), job.ID); err != nil {
				f.t.Fatal(err)
			}
		}
		f.awaitState(x, api.JobCancelled)
		if _, known, err := f.Detail(f.t.Context(), waits.ID); err != nil || known {
			f.t.Errorf("the deleted job is known: %v, %v", known, err)
		}
		if err := f.Cancel(f.t.Context(), waits.ID); err != nil {
			f.t.Errorf("cancelling it again: %v", err)
		}
	})

	part("one that Grid Engine cannot start says why", func(f *fixture) {
		job := f.submit("true\n", "-wd", "/nonexistent", "-o", "/dev/null", "-j", "y")
		x := f.watch(job.ID)
		held := f.await(x, "in error, with the reason", func(j api.Job) bool { // the list has the error a moment before its reason
			return j.State == api.JobHeld && strings.Contains(j.Hint, "can't chdir to /nonexistent")
		})
		if !strings.Contains(held.Hint, "will never start") || !strings.Contains(held.Reason, "chdir") {
			f.t.Errorf("in error %+v", held)
		}
	})

	part("one that can never run says so, and one that waits says for what", func(f *fixture) {
		never, later := f.submit("true\n", "-l", "gpu=8"), f.submit("true\n", "-a", "203001010000")
		x, y := f.watch(never.ID), f.watch(later.ID)
		told := f.await(x, "told apart", func(j api.Job) bool { return strings.Contains(j.Hint, "will never start") })
		if !strings.Contains(told.Hint, "more of a resource") || !strings.Contains(told.Reason, "gpu") {
			f.t.Errorf("never %+v", told)
		}
		f.await(y, "told", func(j api.Job) bool { return strings.Contains(j.Hint, "start time") && !j.ExpectedStart.IsZero() })
	})

	part("an array is followed by its running tasks", func(f *fixture) {
		t := f.t
		job := f.submit("#$ -N arr -cwd -j y -t 1-3 -tc 1 -l h_rt=0:5:0\necho task $SGE_TASK_ID; while test ! -f ~/stop.$JOB_ID.$SGE_TASK_ID; do sleep 0.2; done\n")
		if strings.ContainsAny(job.ID, ".-:") {
			t.Fatalf("submitted %+v", job)
		}
		x := f.watch(job.ID)
		for _, task := range []string{"1", "2"} {
			running := f.await(x, "running task "+task, func(j api.Job) bool { return j.State == api.JobRunning && j.Task == task && j.Log != "" })
			if running.ID != job.ID || running.Log != "/home/hpcuser/arr.o"+job.ID+"."+task {
				t.Errorf("task %s: %+v", task, running)
			}
			if text := f.log(running); text != "task "+task+"\n" {
				t.Errorf("log of task %s: %q", task, text)
			}
			f.stop("stop." + job.ID + "." + task)
		}
		if err := f.Cancel(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		f.await(x, "over", func(j api.Job) bool { return j.State.Ended() })
	})

	part("a refusal has its cause", func(f *fixture) {
		_, err := f.Submit(f.t.Context(), jobwatch.Submission{Tag: "refused", Content: []byte("#!/bin/bash\n"), Base: "job.sh", Args: []string{"-q", "nosuch.q"}})
		if said, ok := errors.AsType[*api.Error](err); !ok || said.Code != api.CodeSubmit || !strings.HasSuffix(said.Message, `unknown queue "nosuch.q"`) || !strings.Contains(said.Hint, "qconf -sql") {
			f.t.Errorf("said %+v", err)
		}
	})
}
