//go:build linux

package e2e

import (
	"context"
	"net/http"
	"sync"
	"syscall"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/autostart"
)

// What happens to a campaign's session, where a word to the lab is not enough.

func nothing(*campaign) {}

func (c *campaign) killServer() {
	c.t.Helper()
	if out, err := c.lab.Exec(c.was.Job.Node, "pkill", "-KILL", "-u", "hpcuser", "python3"); err != nil {
		c.t.Fatal(err, out)
	}
}

// requeue sends the job back to the queue.
func (c *campaign) requeue() {
	c.t.Helper()
	c.scontrol("update", "jobid="+c.was.Job.ID, "requeue=1")
	c.scontrol("requeue", c.was.Job.ID)
}

// startElsewhere has the job start on the other node now. Slurm would let it wait for
// two minutes.
func (c *campaign) startElsewhere() {
	c.t.Helper()
	c.lab.WaitJob(c.was.Job.ID, "PENDING")
	c.scontrol("update", "jobid="+c.was.Job.ID, "reqnodelist=cn02", "starttime=now")
}

func (c *campaign) scontrol(args ...string) {
	c.t.Helper()
	if out, err := c.lab.Exec("ctl", append([]string{"scontrol"}, args...)...); err != nil {
		c.t.Fatal(err, out)
	}
}

// shortenJob changes something that the agent wants to note down.
func (c *campaign) shortenJob() {
	c.t.Helper()
	c.scontrol("update", "jobid="+c.was.Job.ID, "timelimit=50")
}

// use has a browser ask for the page again and again until the fault is over.
func (c *campaign) use() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.was.Local+"/", http.NoBody)
			if err != nil {
				return
			}
			if res, err := browser().Do(req); err == nil {
				_ = res.Body.Close()
			}
			pause(c.t, 100*time.Millisecond)
		}
	})
	c.after = func() { cancel(); asking.Wait() }
}

func (c *campaign) killAgent() {
	c.t.Helper()
	c.signal(c.l.agentPID(), syscall.SIGKILL)
}

// restartAgent does what systemd does with the unit of `tunctl autostart on`.
func (c *campaign) restartAgent() {
	ctx := context.WithoutCancel(c.t.Context()) // it ends when the laptop stops its agent
	time.AfterFunc(autostart.RestartDelay, func() { _ = c.l.commandIn(ctx, "agent", "run", "--background").Run() })
}

// asleep is longer than the agent takes for a delay (tunnel's wakeTick and wakeJump).
const asleep = 36 * time.Second

// sleep stops the agent and what it is connected to. When the agent goes on, the clock
// has jumped for it, as after a sleep of the laptop.
func (c *campaign) sleep() {
	c.t.Helper()
	pid := c.l.agentPID()
	c.signal(pid, syscall.SIGSTOP)
	c.lab.FreezeConns(c.alias)
	pause(c.t, asleep)
	c.began = time.Now()
	c.signal(pid, syscall.SIGCONT)
}

func (c *campaign) signal(pid int, sig syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

// rotateHostKey gives the server another key before anybody can log in again.
func (c *campaign) rotateHostKey() {
	c.t.Helper()
	c.lab.FreezeListener(c.alias)
	c.lab.KillConns(c.alias)
	c.lab.RotateHostKey(c.alias)
}

// endAndTry ends the job and has the user ask for another, in vain.
func (c *campaign) endAndTry() {
	c.t.Helper()
	mark := c.seen.mark()
	c.lab.Cancel(c.was.Job.ID)
	c.await(mark, slack, "ended", func(s sighting) bool { return s.session.State == api.SessionEnded })
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if out, err := c.l.commandIn(ctx, "up", "--no-open", "page").CombinedOutput(); err == nil {
		c.t.Errorf("up says that all is well:\n%s", out)
	}
}
