//go:build linux

package jobwatch

import (
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/dev/wait"
	"tunctl/jobwatch/joblog"
)

// await polls until the plain job is in state.
func await(t *testing.T, w *Watcher, id string, state api.JobState) api.Job {
	t.Helper()
	var job api.Job
	wait.Until(t, "job "+id+" is "+string(state), func() (is bool) {
		var err error
		if job, is, err = w.Detail(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return is && job.State == state
	})
	return job
}

// TestPlainProcess: a plain process lives on and is found again.
func TestPlainProcess(t *testing.T) {
	m := jobtest.NewMachine(t)
	job, err := plainWatcher(m).Submit(t.Context(), Submission{
		Tag: "t", Content: []byte("#!/bin/sh\necho \"hello $1\"\nwhile test ! -f \"$HOME/stop\"; do sleep 0.02; done\nexit 3\n"), Base: "serve.sh", Args: []string{"it's me"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if job.ID != "t" || job.Name != "serve" || job.State != api.JobRunning || job.Node == "" {
		t.Errorf("got %+v", job)
	}
	w := plainWatcher(m) // another agent
	for _, q := range []Query{{ID: "t"}, {Name: "serve"}, {Tag: "t"}} {
		if found, ok, err := w.Find(t.Context(), q); err != nil || !ok || found.ID != "t" || found.State != api.JobRunning {
			t.Errorf("%+v: got %+v, %v, %v", q, found, ok, err)
		}
	}
	m.Write(t, "stop", "")
	job = await(t, w, "t", api.JobFailed)
	if job.Exit == nil || *job.Exit != 3 || job.End.IsZero() {
		t.Errorf("got %+v", job)
	}
	if got := m.Read(t, job.Log); got != "hello it's me\n" {
		t.Errorf("log %q", got)
	}
	if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 0 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

// TestPlainProcessCancelled: a plain process is ended politely.
func TestPlainProcessCancelled(t *testing.T) {
	m := jobtest.NewMachine(t)
	w := plainWatcher(m)
	if _, err := w.Submit(t.Context(), Submission{
		Tag: "t", Content: []byte("#!/bin/sh\ntrap 'echo bye; exit 0' TERM\necho up\nwhile :; do sleep 0.02; done\n"), Base: "serve.sh",
	}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is up", func() bool {
		data, err := joblog.Tail(t.Context(), m, "~/.tunctl/t/tunctl.log", 1)
		return err == nil && string(data) == "up\n"
	})
	if err := w.Cancel(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	await(t, w, "t", api.JobCancelled)
	if got := m.Read(t, ".tunctl/t/tunctl.log"); !strings.HasSuffix(got, "bye\n") {
		t.Errorf("log %q", got)
	}
	if err := w.Cancel(t.Context(), "t"); err != nil {
		t.Errorf("cancelling it again: %v", err)
	}
}

// TestPlainProcessNumber: another process with the same pid is not the job.
func TestPlainProcessNumber(t *testing.T) {
	m := jobtest.NewMachine(t)
	if _, err := m.Run(t.Context(), `mkdir -p .tunctl/t/tunctl.lock; echo "$PPID 12345 1794702650 $(uname -n)" >.tunctl/t/tunctl.pid; echo >.tunctl/t/serve.sh`, nil); err != nil {
		t.Fatal(err)
	}
	job, ok, err := plainWatcher(m).Detail(t.Context(), "t")
	if err != nil || !ok || job.State != api.JobNodeFail {
		t.Errorf("got %+v, %v, %v", job, ok, err)
	}
	if err := plainWatcher(m).Cancel(t.Context(), "t"); err != nil {
		t.Error(err)
	}
}
