//go:build linux

package realtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab/real"
	"tunctl/jobwatch"
)

// stop makes the scripts below end: they wait for a file.
func (b *bench) stop(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.lab.Dir(), "home/hpcuser", name), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

const untilStopped = "while test ! -f stop.$SLURM_JOB_ID; do sleep 0.2; done\n"

func TestALogIsKnownWhateverStandsAroundItUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.submit("echo hello\necho >said.$SLURM_JOB_ID\n"+untilStopped, "--output=%x-%J-%N-%t-%n-%s.log", "--job-name=odd", "--comment=StdOut=/nowhere WorkDir=/nor here", "--switches=1")
	x := b.watch(job.ID)
	job = b.await(x, "running with its log", func(j api.Job) bool { return j.State == api.JobRunning && j.Log != "" })
	b.written("said." + job.ID)
	text, err := jobwatch.TailLog(t.Context(), labLogin(b.lab), job.Log, 5)
	if err != nil || string(text) != "hello\n" {
		t.Errorf("log %q has %q, %v", job.Log, text, err)
	}
	if !strings.HasSuffix(job.Script, "/job.sh") {
		t.Errorf("script %q", job.Script)
	}
	b.stop("stop." + job.ID)
	b.awaitState(x, api.JobFinished)
}

func TestAnArrayIsServedTaskByTaskUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	array := b.submit("echo task $SLURM_ARRAY_TASK_ID\nwhile test ! -f stop.$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID; do sleep 0.2; done\n", "--array=1-2%1", "--job-name=chain", "--output=chain-%A_%a.log")
	x := b.watch(array.ID)
	served := ""
	for range 2 { // which is first is Slurm's choice; one whose launch failed starts two minutes later
		job := b.awaitFor(x, 4*time.Minute, "a task other than "+served, func(j api.Job) bool {
			return j.State == api.JobRunning && j.Task != "" && j.Task != served && j.Log != ""
		})
		task := job.Task
		served = task
		if job.ID != array.ID || !strings.HasSuffix(job.Log, "/chain-"+array.ID+"_"+task+".log") {
			t.Errorf("task %s: %+v", task, job)
		}
		if found, ok, err := b.Find(t.Context(), jobwatch.Query{Name: "chain"}); err != nil || !ok || found.ID != array.ID || found.Task != task {
			t.Errorf("by name: %+v, %v, %v", found, ok, err)
		}
		b.stop("stop." + array.ID + "." + task)
	}
	b.awaitState(x, api.JobFinished)
}

func testClustersAndProcesses(t *testing.T) {
	b := benchOf(t, real.StartWith(t, real.Options{Accounting: true}))
	job := b.submit("echo $$ >pid.$SLURM_JOB_ID\n"+untilStopped, "-M", "lab", "--nodelist=cn01")
	if job.Cluster != "lab" || strings.Contains(job.ID, ";") {
		t.Fatalf("submitted %+v", job)
	}
	x := b.watch(job.Ref())
	running := b.awaitState(x, api.JobRunning)
	if running.Cluster != "lab" || running.Ref() != job.Ref() {
		t.Errorf("running %+v", running)
	}
	other := b.submit("echo $$ >pid.$SLURM_JOB_ID\n"+untilStopped, "--nodelist=cn01")
	beside := b.awaitState(b.watch(other.ID), api.JobRunning)
	for _, j := range []api.Job{running, beside} {
		for _, k := range []api.Job{running, beside} {
			owns, err := b.OwnsProcess(t.Context(), j, b.pid(k))
			if owns != (j.ID == k.ID) || err != nil && owns {
				t.Errorf("job %s has the process of job %s: %v, %v", j.ID, k.ID, owns, err)
			}
		}
	}
	if err := b.Cancel(t.Context(), job.Ref()); err != nil {
		t.Fatal(err)
	}
	b.awaitState(x, api.JobCancelled)
}

// pid is the process id that a job's script wrote down.
func (b *bench) pid(job api.Job) int {
	b.t.Helper()
	pid, err := strconv.Atoi(b.written("pid." + job.ID))
	if err != nil {
		b.t.Fatalf("job %s wrote down a process id: %v", job.ID, err)
	}
	return pid
}

// written waits until a job's script has written a line to a file, and returns it.
func (b *bench) written(name string) string {
	b.t.Helper()
	file := filepath.Join(b.lab.Dir(), "home/hpcuser", name)
	tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(file)
		if line, whole := strings.CutSuffix(string(text), "\n"); err == nil && whole {
			return line
		}
		select {
		case <-tick.C:
		case <-late:
			b.t.Fatalf("no job wrote %s: %v", name, err)
		}
	}
}
