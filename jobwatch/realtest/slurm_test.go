//go:build linux

package realtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab/real"
	"tunctl/jobwatch"
)

func TestMain(m *testing.M) { os.Exit(real.Main(m)) }

// login is a Runner by the ssh program; its words are ssh's, up to the host.
type login []string

func labLogin(lab *real.Lab) login { return login{"-F", lab.SSHConfig(), "lab-login"} }

func (l login) Run(ctx context.Context, command string, stdin []byte) (jobwatch.Result, error) {
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-o", "BatchMode=yes"}, append(l, command)...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err := cmd.Run()
	res := jobwatch.Result{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() != 255 {
		res.Exit, err = exit.ExitCode(), nil
	}
	return res, err
}

// bench is a served Watcher on the lab's login node.
type bench struct {
	*jobwatch.Watcher
	t   *testing.T
	lab *real.Lab
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOf(t, real.Start(t))
}

func benchOf(t *testing.T, lab *real.Lab) *bench {
	t.Helper()
	w := jobwatch.NewWatcher(labLogin(lab), jobwatch.Options{Limits: jobwatch.PracticeLimits()})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = w.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return &bench{Watcher: w, t: t, lab: lab}
}

// submit submits a script and sees to it that its job is gone after the test.
func (b *bench) submit(script string, args ...string) api.Job {
	b.t.Helper()
	job, err := b.Submit(b.t.Context(), jobwatch.Submission{
		Tag: fmt.Sprintf("t%d", time.Now().UnixNano()), Content: []byte("#!/bin/bash\n" + script), Base: "job.sh", Args: args,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = b.Cancel(context.WithoutCancel(b.t.Context()), job.ID) })
	return job
}

// await waits until the watched job is as wanted.
func (b *bench) await(x *jobwatch.Watch, what string, wanted func(api.Job) bool) api.Job {
	b.t.Helper()
	return b.awaitFor(x, time.Minute, what, wanted)
}

func (b *bench) awaitFor(x *jobwatch.Watch, limit time.Duration, what string, wanted func(api.Job) bool) api.Job {
	b.t.Helper()
	late := time.After(limit)
	for !wanted(x.Job()) {
		select {
		case <-x.C():
		case <-late:
			b.t.Fatalf("the job is never %s; it is %+v", what, x.Job())
		}
	}
	return x.Job()
}

func (b *bench) awaitState(x *jobwatch.Watch, state api.JobState) api.Job {
	b.t.Helper()
	return b.await(x, string(state), func(j api.Job) bool { return j.State == state })
}

func (b *bench) watch(id string) *jobwatch.Watch {
	x := b.Watch(id)
	b.t.Cleanup(x.Close)
	return x
}

func TestAJobsLifeUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if name, err := b.Scheduler(t.Context()); err != nil || name != jobwatch.Slurm {
		t.Fatalf("scheduler %q, %v", name, err)
	}
	job := b.submit("#SBATCH --output=out.%j.log\necho hello; while test ! -f stop.$SLURM_JOB_ID; do sleep 0.2; done; exit 3\n", "--job-name=my|job \"x\"", "--time=5")
	if job.Name != `my|job "x"` || !strings.HasSuffix(job.Log, "/out."+job.ID+".log") || !strings.Contains(job.Script, "/.tunctl/t") {
		t.Errorf("submitted %+v", job)
	}
	x := b.watch(job.ID)
	running := b.awaitState(x, api.JobRunning)
	if running.Node == "" || running.End.Sub(running.Start) != 5*time.Minute || running.Log != job.Log || running.Submitted.IsZero() {
		t.Errorf("running %+v", running)
	}
	listed, err := b.Jobs(t.Context())
	if i := slices.IndexFunc(listed, func(j api.Job) bool { return j.ID == job.ID }); err != nil || i < 0 || listed[i].Log != job.Log {
		t.Errorf("listed as %+v, %v", listed, err)
	}
	found, ok, err := b.Find(t.Context(), jobwatch.Query{Name: `my|job "x"`})
	if err != nil || !ok || found.ID != job.ID {
		t.Errorf("by name: %+v, %v, %v", found, ok, err)
	}
	if err := os.WriteFile(filepath.Join(b.lab.Dir(), "home/hpcuser/stop."+job.ID), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ended := b.awaitState(x, api.JobFailed); ended.Exit == nil || *ended.Exit != 3 {
		t.Errorf("ended %+v", ended)
	}
	text, err := jobwatch.TailLog(t.Context(), labLogin(b.lab), job.Log, 5)
	if err != nil || string(text) != "hello\n" {
		t.Errorf("log %q, %v", text, err)
	}
}

func TestReasonsAndEndsUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.watch(b.submit("true\n", "--hold").ID)
	if job := b.awaitState(held, api.JobHeld); job.Hint == "" {
		t.Errorf("held %+v", job)
	}
	later := b.watch(b.submit("true\n", "--begin=now+1hour").ID)
	if job := b.awaitState(later, api.JobQueued); job.Reason != "BeginTime" || time.Until(job.ExpectedStart) < 50*time.Minute {
		t.Errorf("later %+v", job)
	}
	done := b.watch(b.submit("true\n").ID)
	b.awaitState(done, api.JobFinished)
	long := b.submit("sleep 600\n")
	x := b.watch(long.ID)
	b.awaitState(x, api.JobRunning)
	b.lab.Cancel(long.ID) // outside our control
	b.awaitState(x, api.JobCancelled)
	_, err := b.Submit(t.Context(), jobwatch.Submission{Tag: fmt.Sprintf("r%d", time.Now().UnixNano()), Content: []byte("#!/bin/sh\n"), Base: "x.sh", Args: []string{"--partition=nosuch"}})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeSubmit || !strings.Contains(e.Message, "nosuch") || e.Hint == "" {
		t.Errorf("refused as %#v", err)
	}
}

func TestARequeuedJobAndAnArrayUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.submit("sleep 600\n", "--requeue")
	x := b.watch(job.ID)
	b.awaitState(x, api.JobRunning)
	if _, err := b.lab.As("hpcuser", "scontrol", "requeue", job.ID); err != nil {
		t.Fatal(err)
	}
	b.await(x, "requeued", func(j api.Job) bool { return j.Restarts == 1 && j.State.Waiting() })

	array := b.submit("#SBATCH --output=arr.%A.%a.log\nsleep 600\n", "--array=0-3%1")
	y := b.watch(array.ID)
	task := b.awaitState(y, api.JobRunning)
	if task.ID != array.ID || task.Node == "" || !strings.HasSuffix(task.Log, "/arr."+array.ID+".0.log") {
		t.Errorf("the array's task is %+v", task)
	}
}

func TestAControllerThatIsAwayOrStuckUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.submit("sleep 600\n")
	x := b.watch(job.ID)
	before := b.awaitState(x, api.JobRunning)
	b.lab.StopController()
	if away := b.awaitState(x, api.JobUnknown); away.Node != before.Node || away.Hint == "" {
		t.Errorf("away %+v", away)
	}
	if _, err := b.Jobs(t.Context()); !errors.Is(err, jobwatch.ErrNoAnswer) {
		t.Errorf("Jobs: %v", err)
	}
	b.lab.StartController()
	b.Nudge()
	b.awaitState(x, api.JobRunning)
}

func TestAStuckControllerMakesOneJobUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Jobs(t.Context()); err != nil { // it is known before
		t.Fatal(err)
	}
	s := jobwatch.Submission{Tag: fmt.Sprintf("g%d", time.Now().UnixNano()), Content: []byte("#!/bin/sh\nsleep 600\n"), Base: "ghost.sh"}
	b.lab.FreezeController()
	thaw := time.AfterFunc(25*time.Second, b.lab.ContController)
	defer thaw.Stop()
	job, err := b.Submit(t.Context(), s)
	for tries := 0; err != nil && tries < 5; tries++ { // as the agent does, under the same tag
		t.Logf("after %d tries: %v", tries+1, err)
		job, err = b.Submit(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Cancel(context.WithoutCancel(t.Context()), job.ID) })
	jobs, err := b.Jobs(t.Context())
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

func TestThreeHundredJobsAreOneQueryUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out, err := b.lab.As("hpcuser", "bash", "-c", "seq 300 | xargs -P 8 -I{} sbatch --parsable --hold --job-name=many --wrap=true | sort -n | tail -n 1")
	if err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { _, _ = b.lab.As("hpcuser", "scancel", "--name=many") })
	began := time.Now()
	jobs, err := b.Jobs(t.Context())
	if err != nil || len(jobs) < 300 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	t.Logf("300 jobs in %s", time.Since(began))
	job, ok, err := b.Find(t.Context(), jobwatch.Query{Name: "many"})
	if err != nil || !ok || job.ID != strings.TrimSpace(out) || !strings.Contains(job.Hint, "newest of 300") && job.State != api.JobHeld {
		t.Errorf("found %+v, %v, %v", job, ok, err)
	}
}
