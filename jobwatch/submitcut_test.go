//go:build unix

package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

// cut is a machine whose connection breaks during one command: the part that has arrived
// keeps running, or gets a signal.
type cut struct {
	*jobtest.Machine
	bytes  int           // how much of the script arrives; all of it if negative
	after  time.Duration // how long the link lives
	signal syscall.Signal
}

var errLink = errors.New("the link broke")

func (c *cut) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	if c.bytes >= 0 {
		stdin = stdin[:min(c.bytes, len(stdin))]
	}
	cmd := c.Command(context.WithoutCancel(ctx), command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = bytes.NewReader(stdin)
	if err := cmd.Start(); err != nil {
		return remote.Result{}, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-time.After(c.after):
		_ = syscall.Kill(-cmd.Process.Pid, c.signal)
		<-ended
	case <-ended:
	}
	return remote.Result{}, errLink
}

// TestSubmitCut: a link that breaks at any moment never makes two jobs.
func TestSubmitCut(t *testing.T) {
	s := Submission{Tag: "tag", Content: []byte("#!/bin/sh\necho hello\n"), Base: "job.sh"}
	whole := jobtest.NewSlurm(t)
	if _, err := slurmWatcher(whole).Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	size := len(whole.Scripts[0])
	for n := 0; n < size+size/10; n += size / 10 {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			t.Parallel()
			breakLink(t, s, &cut{bytes: n, after: 10 * time.Second, signal: syscall.SIGHUP})
		})
	}
	for ms := range 10 {
		after := time.Duration(ms) * 8 * time.Millisecond
		t.Run(fmt.Sprintf("hang-up after %s", after), func(t *testing.T) {
			t.Parallel()
			breakLink(t, s, &cut{bytes: -1, after: after, signal: syscall.SIGHUP})
		})
		t.Run(fmt.Sprintf("kill after %s", after), func(t *testing.T) {
			t.Parallel()
			breakLink(t, s, &cut{bytes: -1, after: after, signal: syscall.SIGKILL})
		})
	}
}

// breakLink submits over a connection that breaks, and again over a good one.
func breakLink(t *testing.T, s Submission, c *cut) {
	c.Machine = jobtest.NewSlurm(t)
	c.Write(t, "sbatch", "before() { sleep 0.02; }")
	if _, err := slurmWatcher(c).Submit(t.Context(), s); !errors.Is(err, errLink) {
		t.Fatal(err)
	}
	w := slurmWatcher(c.Machine)
	if c.signal == syscall.SIGKILL {
		w.host.sh.Limit = time.Second // nobody may be left to finish: do not wait long
	}
	job, err := w.Submit(t.Context(), s)
	jobs := jobtest.Submitted(t, c.Machine)
	switch {
	case len(jobs) > 1:
		t.Errorf("%d jobs", len(jobs))
	case err == nil && (len(jobs) != 1 || !strings.HasPrefix(jobs[0], job.ID+"@")):
		t.Errorf("got %q, the jobs are %q", job.ID, jobs)
	case err != nil && c.signal != syscall.SIGKILL:
		t.Error(err)
	}
	t.Log(outcome(err))
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "one job"
	case errors.Is(err, remote.ErrNoAnswer):
		return "not known yet"
	}
	if _, ok := errors.AsType[*DoubtError](err); ok {
		return "a person is asked"
	}
	return err.Error()
}
