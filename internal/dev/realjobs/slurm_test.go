//go:build linux

package realjobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
	"tunctl/jobwatch"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

func TestMain(m *testing.M) { os.Exit(real.Main(m)) }

// login is a Runner that starts ssh with these arguments.
type login []string

func labLogin(lab *real.Lab) login { return login{"-F", lab.SSHConfig(), "lab-login"} }

func (l login) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-o", "BatchMode=yes"}, append(l, command)...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err := cmd.Run()
	res := remote.Result{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() != 255 {
		res.Exit, err = exit.ExitCode(), nil
	}
	return res, err
}

// fixture is a running Watcher of the lab's login node.
type fixture struct {
	*jobwatch.Watcher
	t   *testing.T
	lab *real.Lab
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return fixtureOf(t, real.Start(t))
}

func fixtureOf(t *testing.T, lab *real.Lab) *fixture {
	t.Helper()
	return fixtureOver(t, lab, sharedLogin(t, lab))
}

func fixtureOver(t *testing.T, lab *real.Lab, l login) *fixture {
	t.Helper()
	w := jobwatch.NewWatcher(l, jobwatch.Options{Limits: remote.PracticeLimits()})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = w.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return &fixture{Watcher: w, t: t, lab: lab}
}

// submit submits a script, and cancels its job after the test.
func (f *fixture) submit(script string, args ...string) api.Job {
	f.t.Helper()
	job, err := f.Submit(f.t.Context(), jobwatch.Submission{
		Tag: fmt.Sprintf("t%d", time.Now().UnixNano()), Content: []byte("#!/bin/bash\n" + script), Base: "job.sh", Args: args,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = f.Cancel(context.WithoutCancel(f.t.Context()), job.ID) })
	return job
}

// await waits until wanted is true for the watched job.
func (f *fixture) await(x *jobwatch.Watch, what string, wanted func(api.Job) bool) api.Job {
	f.t.Helper()
	return f.awaitFor(x, wait.Limit, what, wanted)
}

func (f *fixture) awaitFor(x *jobwatch.Watch, limit time.Duration, what string, wanted func(api.Job) bool) api.Job {
	f.t.Helper()
	late := time.After(limit)
	for !wanted(x.Job()) {
		select {
		case <-x.C():
		case <-late:
			f.t.Fatalf("the job is never %s; it is %+v", what, x.Job())
		}
	}
	return x.Job()
}

func (f *fixture) awaitState(x *jobwatch.Watch, state api.JobState) api.Job {
	f.t.Helper()
	return f.await(x, string(state), func(j api.Job) bool { return j.State == state })
}

func (f *fixture) watch(id string) *jobwatch.Watch {
	x := f.Watch(id)
	f.t.Cleanup(x.Close)
	return x
}

func TestAJobsLifeUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if name, err := f.Scheduler(t.Context()); err != nil || name != "slurm" {
		t.Fatalf("scheduler %q, %v", name, err)
	}
	job := f.submit("#SBATCH --output=out.%j.log\necho hello; while test ! -f stop.$SLURM_JOB_ID; do sleep 0.2; done; exit 3\n", "--job-name=my|job \"x\"", "--time=5")
	if job.Name != `my|job "x"` || !strings.HasSuffix(job.Log, "/out."+job.ID+".log") || !strings.Contains(job.Script, "/.tunctl/t") {
		t.Errorf("submitted %+v", job)
	}
	x := f.watch(job.ID)
	running := f.awaitState(x, api.JobRunning)
	if running.Node == "" || running.End.Sub(running.Start) != 5*time.Minute || running.Log != job.Log || running.Submitted.IsZero() {
		t.Errorf("running %+v", running)
	}
	listed, err := f.Jobs(t.Context())
	if i := slices.IndexFunc(listed, func(j api.Job) bool { return j.ID == job.ID }); err != nil || i < 0 || listed[i].Log != job.Log {
		t.Errorf("listed as %+v, %v", listed, err)
	}
	found, ok, err := f.Find(t.Context(), jobwatch.Query{Name: `my|job "x"`})
	if err != nil || !ok || found.ID != job.ID {
		t.Errorf("by name: %+v, %v, %v", found, ok, err)
	}
	if err := os.WriteFile(filepath.Join(f.lab.Dir(), "home/hpcuser/stop."+job.ID), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ended := f.awaitState(x, api.JobFailed); ended.Exit == nil || *ended.Exit != 3 {
		t.Errorf("ended %+v", ended)
	}
	text, err := joblog.Tail(t.Context(), labLogin(f.lab), job.Log, 5)
	if err != nil || string(text) != "hello\n" {
		t.Errorf("log %q, %v", text, err)
	}
}

func TestReasonsAndEndsUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held := f.watch(f.submit("true\n", "--hold").ID)
	if job := f.awaitState(held, api.JobHeld); job.Hint == "" {
		t.Errorf("held %+v", job)
	}
	later := f.watch(f.submit("true\n", "--begin=now+1hour").ID)
	if job := f.awaitState(later, api.JobQueued); job.Reason != "BeginTime" || time.Until(job.ExpectedStart) < 50*time.Minute {
		t.Errorf("later %+v", job)
	}
	done := f.watch(f.submit("true\n").ID)
	f.awaitState(done, api.JobFinished)
	long := f.submit("sleep 600\n")
	x := f.watch(long.ID)
	f.awaitState(x, api.JobRunning)
	f.lab.Cancel(long.ID) // outside our control
	f.awaitState(x, api.JobCancelled)
	_, err := f.Submit(t.Context(), jobwatch.Submission{Tag: fmt.Sprintf("r%d", time.Now().UnixNano()), Content: []byte("#!/bin/sh\n"), Base: "x.sh", Args: []string{"--partition=nosuch"}})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeSubmit || !strings.Contains(e.Message, "nosuch") || e.Hint == "" {
		t.Errorf("refused as %#v", err)
	}
}

func TestAStuckControllerMakesOneJobUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.Jobs(t.Context()); err != nil { // it is known before
		t.Fatal(err)
	}
	s := jobwatch.Submission{Tag: fmt.Sprintf("g%d", time.Now().UnixNano()), Content: []byte("#!/bin/sh\nsleep 600\n"), Base: "ghost.sh"}
	f.lab.FreezeController()
	thaw := time.AfterFunc(25*time.Second, f.lab.ContController)
	defer thaw.Stop()
	job, err := f.Submit(t.Context(), s)
	for tries := 0; err != nil && tries < 5; tries++ { // as the agent does, under the same tag
		t.Logf("after %d tries: %v", tries+1, err)
		job, err = f.Submit(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Cancel(context.WithoutCancel(t.Context()), job.ID) })
	jobs, err := f.Jobs(t.Context())
	n := 0
	for _, j := range jobs {
		if strings.Contains(j.Script, "/"+s.Tag+"/") {
			n++
		}
	}
	if err != nil || n != 1 {
		t.Errorf("%d jobs of one tag: %+v, %v", n, jobs, err)
	}
}

// stop creates the file that a script below waits for.
func (f *fixture) stop(name string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.lab.Dir(), "home/hpcuser", name), nil, 0o644); err != nil {
		f.t.Fatal(err)
	}
}

const untilStopped = "while test ! -f stop.$SLURM_JOB_ID; do sleep 0.2; done\n"

func TestALogIsKnownWhateverStandsAroundItUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := f.submit("echo hello\necho >said.$SLURM_JOB_ID\n"+untilStopped, "--output=%x-%J-%N-%t-%n-%s.log", "--job-name=odd", "--comment=StdOut=/nowhere WorkDir=/nor here", "--switches=1")
	x := f.watch(job.ID)
	job = f.await(x, "running with its log", func(j api.Job) bool { return j.State == api.JobRunning && j.Log != "" })
	f.waitForLine("said." + job.ID)
	text, err := joblog.Tail(t.Context(), labLogin(f.lab), job.Log, 5)
	if err != nil || string(text) != "hello\n" {
		t.Errorf("log %q has %q, %v", job.Log, text, err)
	}
	if !strings.HasSuffix(job.Script, "/job.sh") {
		t.Errorf("script %q", job.Script)
	}
	f.stop("stop." + job.ID)
	f.awaitState(x, api.JobFinished)
}

func TestAnArrayIsServedTaskByTaskUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	array := f.submit("echo task $SLURM_ARRAY_TASK_ID\nwhile test ! -f stop.$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID; do sleep 0.2; done\n", "--array=1-2%1", "--job-name=chain", "--output=chain-%A_%a.log")
	x := f.watch(array.ID)
	served := ""
	for range 2 { // in any order; a task whose launch failed starts two minutes later
		job := f.awaitFor(x, 4*time.Minute, "a task other than "+served, func(j api.Job) bool {
			return j.State == api.JobRunning && j.Task != "" && j.Task != served && j.Log != ""
		})
		task := job.Task
		served = task
		if job.ID != array.ID || !strings.HasSuffix(job.Log, "/chain-"+array.ID+"_"+task+".log") {
			t.Errorf("task %s: %+v", task, job)
		}
		if found, ok, err := f.Find(t.Context(), jobwatch.Query{Name: "chain"}); err != nil || !ok || found.ID != array.ID || found.Task != task {
			t.Errorf("by name: %+v, %v, %v", found, ok, err)
		}
		f.stop("stop." + array.ID + "." + task)
	}
	f.awaitState(x, api.JobFinished)
}

func testClustersAndProcesses(t *testing.T) {
	f := fixtureOf(t, real.StartWith(t, real.Options{Accounting: true}))
	job := f.submit("echo $$ >pid.$SLURM_JOB_ID\n"+untilStopped, "-M", "lab", "--nodelist=cn01")
	if job.Cluster != "lab" || strings.Contains(job.ID, ";") {
		t.Fatalf("submitted %+v", job)
	}
	x := f.watch(job.Ref())
	running := f.awaitState(x, api.JobRunning)
	if running.Cluster != "lab" || running.Ref() != job.Ref() {
		t.Errorf("running %+v", running)
	}
	other := f.submit("echo $$ >pid.$SLURM_JOB_ID\n"+untilStopped, "--nodelist=cn01")
	beside := f.awaitState(f.watch(other.ID), api.JobRunning)
	for _, j := range []api.Job{running, beside} {
		for _, k := range []api.Job{running, beside} {
			owns, err := f.OwnsProcess(t.Context(), j, f.pid(k))
			if owns != (j.ID == k.ID) || err != nil && owns {
				t.Errorf("job %s has the process of job %s: %v, %v", j.ID, k.ID, owns, err)
			}
		}
	}
	if err := f.Cancel(t.Context(), job.Ref()); err != nil {
		t.Fatal(err)
	}
	f.awaitState(x, api.JobCancelled)
}

// pid is the process id that a job's script wrote to a file.
func (f *fixture) pid(job api.Job) int {
	f.t.Helper()
	pid, err := strconv.Atoi(f.waitForLine("pid." + job.ID))
	if err != nil {
		f.t.Fatalf("job %s wrote down a process id: %v", job.ID, err)
	}
	return pid
}

// waitForLine waits until a job's script has written a line to a file, and returns it.
func (f *fixture) waitForLine(name string) string {
	f.t.Helper()
	file := filepath.Join(f.lab.Dir(), "home/hpcuser", name)
	tick, late := time.NewTicker(20*time.Millisecond), time.After(wait.Limit)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(file)
		if line, whole := strings.CutSuffix(string(text), "\n"); err == nil && whole {
			return line
		}
		select {
		case <-tick.C:
		case <-late:
			f.t.Fatalf("no job wrote %s: %v", name, err)
		}
	}
}
