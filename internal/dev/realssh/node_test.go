//go:build linux

package realssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// colourJob does nothing, with a variable of its own.
const colourJob = `#!/bin/bash
#SBATCH --time=10:00 --output=/dev/null --nodelist=cn01
export COLOUR=red
exec sleep 600
`

// begin starts a command inside a job and returns its channel.
func begin(t *testing.T, n *node.Node, command string) (ssh.Channel, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ch, requests, err := n.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !ok {
		err = fmt.Errorf("%q was refused", command)
	}
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

// printed is what a command inside a job prints.
func printed(t *testing.T, n *node.Node, command string) (string, error) {
	t.Helper()
	ch, err := begin(t, n, command)
	if err != nil {
		return "", err
	}
	defer func() { _ = ch.Close() }()
	out, err := io.ReadAll(ch)
	return strings.TrimSpace(string(out)), err
}

// steps are those of a job that srun started.
func steps(lab *real.Lab, job string) []string {
	out, _ := lab.Exec("ctl", "squeue", "-s", "-h", "-j", job, "-o", "%i")
	var list []string
	for id := range strings.FieldsSeq(out) {
		if !strings.HasSuffix(id, ".batch") && !strings.HasSuffix(id, ".extern") {
			list = append(list, id)
		}
	}
	return list
}

// sruns are the processes of srun on the login node.
func sruns(lab *real.Lab) []string {
	out, _ := lab.Exec("login1", "pgrep", "-x", "srun")
	return strings.Fields(out)
}

func TestOneStepCarriesAllThatGoesIntoAJob(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	l := newLaptop(t, options{})
	job := l.lab.Submit(colourJob)
	l.lab.WaitJob(job, "RUNNING")
	defer l.lab.Cancel(job)
	var mu sync.Mutex
	var told []string
	o := node.Options{Names: []string{"cn01"}, Job: job, Learned: &node.Learned{}}
	newNode := func() *node.Node { return node.New(l.mustLogin("lab-login").Link(), o) }
	o.Notice = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, text)
	}
	node := newNode()
	defer node.Close()
	want := job + " red cn01"
	if got, err := printed(t, node, "echo $SLURM_JOB_ID $COLOUR $(hostname)"); err != nil || got != want {
		t.Fatalf("inside the job: %q, %v", got, err)
	}

	var open sync.WaitGroup
	for range 24 {
		open.Go(func() {
			ch, err := begin(t, node, "cat")
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = ch.Close() }()
			_, _ = io.WriteString(ch, "hello")
			if got := make([]byte, 5); true {
				if _, err := io.ReadFull(ch, got); err != nil || string(got) != "hello" {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	open.Wait()
	running := sruns(l.lab)
	if list := steps(l.lab, job); len(list) != 1 || len(running) == 0 {
		t.Fatalf("steps %q, srun on the login node %q", list, running)
	}

	shell, err := begin(t, node, "cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.lab.Exec("login1", "pkill", "-x", "srun"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(shell); len(text) > 0 {
		t.Errorf("the shell of the step that was ended printed %q, %v", text, err)
	}
	wait.Until(t, "a new step", func() bool {
		got, err := printed(t, node, "echo $SLURM_JOB_ID $COLOUR $(hostname)")
		return err == nil && got == want
	})
	mu.Lock()
	if text := strings.Join(told, "\n"); len(told) != 1 || !strings.Contains(text, "the job still runs") {
		t.Errorf("told %q", told)
	}
	mu.Unlock()

	node.Close()
	wait.Until(t, "the end of srun and of the step", func() bool { return len(sruns(l.lab)) == 0 && len(steps(l.lab, job)) == 0 })

	l.lab.Cancel(job)
	l.lab.WaitJob(job, "CANCELLED", "COMPLETING")
	o.Notice = nil
	after := newNode()
	defer after.Close()
	wait.Until(t, "the end of the job", func() bool {
		_, err := printed(t, after, "true")
		e, ok := errors.AsType[*api.Error](err)
		return ok && e.Code == api.CodeJobEnded
	})
}

func TestALoginThatTheNodeAdoptsNeedsNoStep(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	l := newLaptop(t, options{lab: real.Options{Adopt: true}})
	job := l.lab.Submit(colourJob)
	l.lab.WaitJob(job, "RUNNING")
	node := node.New(l.mustLogin("lab-login").Link(), node.Options{Names: []string{"cn01"}, Job: job})
	defer node.Close()
	const show = "echo $SLURM_JOB_ID $COLOUR $(grep -o '/job_.*/step_.*' /proc/self/cgroup)"
	if got, err := printed(t, node, show); err != nil || got != job+" red /job_"+job+"/step_extern" {
		t.Errorf("inside the job: %q, %v", got, err)
	}
	if list := steps(l.lab, job); len(list) > 0 {
		t.Errorf("steps %q", list)
	}
}

func TestAStepStartsWithOtherReleasesOfSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	for srun, says := range map[string]string{real.SrunWithoutOverlap: "unrecognized option", real.SrunWaitsForMemory: "temporarily disabled"} {
		t.Run(says, func(t *testing.T) {
			l := newLaptop(t, options{limits: func(l *tunnel.Limits) { l.StepStart = 3 * time.Second }})
			l.lab.StopSSHD("cn01")
			l.lab.WrapSrun(srun)
			job := l.lab.Submit(colourJob)
			l.lab.WaitJob(job, "RUNNING")
			if _, err := l.lab.As("hpcuser", "srun", "--jobid="+job, "--overlap", "--immediate=1", "true"); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("that release says %v, not %q", err, says)
			}
			node := node.New(l.mustLogin("lab-login").Link(), node.Options{Names: []string{"cn01"}, Job: job})
			defer node.Close()
			if got, err := printed(t, node, "echo $SLURM_JOB_ID $COLOUR"); err != nil || got != job+" red" {
				t.Errorf("inside the job: %q, %v", got, err)
			}
		})
	}
}
