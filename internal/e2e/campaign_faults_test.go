//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

// fault is something that befalls a session in use: what is shown of it, and how it
// ends. The page docs/faults.md is made from these.
type fault struct {
	name    string
	inflict func(*campaign)
	state   api.SessionState // shown meanwhile; empty when there is no agent to ask
	cause   string           // in the words shown, with … for what varies
	code    api.Code
	within  bound // until it is shown
	mend    func(*campaign)
	person  string // what a person does, which ends with an up; empty where it mends itself
	again   bound  // until it is ready again; nil where a new job has to wait in the queue
	endsJob bool
	// moved tells a session that has come through from one that was not touched yet.
	moved func(was, now api.Session) bool
	// beside makes a campaign of its own, for a fault that takes long.
	beside func(*testing.T) *campaign
}

// bound is how long something may take, by the limits in force.
type bound func(agent.Limits) time.Duration

func atOnce(agent.Limits) time.Duration { return time.Second }

// silence is until a connection that says nothing is given up.
func silence(l agent.Limits) time.Duration {
	return l.Tunnel.KeepaliveEvery * time.Duration(l.Tunnel.KeepaliveMax+1)
}

// noticed is until a change of the network is found to have cost the connection.
func noticed(l agent.Limits) time.Duration { return time.Second + l.Tunnel.ProbeTimeout }

// dialled is until a dial has failed.
func dialled(l agent.Limits) time.Duration { return l.Tunnel.DialTimeout }

// noDial is until a silence is found and a dial has failed, too.
func noDial(l agent.Limits) time.Duration { return silence(l) + dialled(l) }

// noBanner is until a silence is found and a server has not greeted.
func noBanner(l agent.Limits) time.Duration { return silence(l) + l.Tunnel.BannerTimeout }

// asked is until the scheduler was asked.
func asked(l agent.Limits) time.Duration {
	return l.Jobs.Query + time.Duration(l.Jobs.Jitter*float64(l.Jobs.Query))
}

// unanswered is until the scheduler was asked twice without an answer.
func unanswered(l agent.Limits) time.Duration { return 2 * (asked(l) + l.Jobs.Command) }

// relogin is until the next login, which keeps a distance from the last.
func relogin(l agent.Limits) time.Duration { return l.Tunnel.LoginSpacing + time.Second }

// retried is the longest wait between two tries, after many in vain.
func retried(l agent.Limits) time.Duration { return l.Tunnel.RetryMax }

// plus adds what others take.
func plus(d time.Duration, b bound) bound {
	return func(l agent.Limits) time.Duration { return d + b(l) }
}

func nothing(*campaign) {}

var faults = []fault{
	{
		name:    "the server freezes",
		inflict: func(c *campaign) { c.lab.FreezeListener(c.alias); c.lab.FreezeConns(c.alias) },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 answers, but not as an SSH server: …", within: noBanner,
		mend: func(c *campaign) { c.lab.ContConns(c.alias); c.lab.ContListener(c.alias) }, again: retried,
	},
	{
		name:    "the connection is killed",
		inflict: func(c *campaign) { c.lab.KillConns(c.alias) },
		state:   api.SessionReconnecting, cause: "the connection to lab-named was lost: …", within: atOnce,
		mend: nothing, again: relogin,
	},
	{
		name:    "sshd is restarted and its connections end",
		inflict: func(c *campaign) { c.lab.FreezeListener(c.alias); c.lab.KillConns(c.alias); c.lab.StopSSHD(c.alias) },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 refuses connections…", within: atOnce,
		mend: func(c *campaign) { c.lab.StartSSHD(c.alias) }, again: retried,
	},
	{
		name:    "the network goes silent",
		inflict: func(c *campaign) { c.lab.Cut("silent") },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 does not answer within …", within: noDial,
		mend: func(c *campaign) { c.lab.Restore("silent") }, again: retried,
	},
	{
		name:    "the Wi-Fi goes off",
		inflict: func(c *campaign) { c.lab.Cut("wifi") },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 cannot be reached: …", within: noticed,
		mend: func(c *campaign) { c.lab.Restore("wifi") }, again: relogin,
	},
	{
		name:    "the laptop's address changes",
		inflict: func(c *campaign) { c.lab.Roam() },
		state:   api.SessionReconnecting, cause: "the connection to lab-named was lost: no answer within … after the network changed", within: noticed,
		mend: nothing, again: relogin,
	},
	{
		name:    "the laptop sleeps, and its clock jumps",
		inflict: (*campaign).sleep,
		state:   api.SessionReconnecting, cause: "the connection to … was lost: …", within: plus(15*time.Second, noticed),
		mend: func(c *campaign) { c.lab.ContConns(c.alias) }, again: relogin,
		beside: func(t *testing.T) *campaign {
			l := newLaptop(t, fmt.Sprintf(campaignConfig, "lab-cert", "cn02", ""))
			return newCampaign(t, l, "lab-cert")
		},
	},
	{
		name:    "the name service is gone",
		inflict: func(c *campaign) { c.l.own.SilenceNames(); c.lab.KillConns(c.alias) },
		state:   api.SessionReconnecting, cause: "the name \"login1.lab.test\" cannot be looked up: the name service does not answer…", within: dialled,
		mend: func(c *campaign) { c.l.own.AnswerNames() }, again: retried,
	},
	{
		name:    "the scheduler stalls",
		inflict: func(c *campaign) { c.lab.FreezeController() },
		state:   api.SessionReady, cause: "slurm has not answered since …; the job was last seen on cn01; jobs run on meanwhile", within: unanswered,
		mend: func(c *campaign) { c.lab.ContController() }, again: asked,
	},
	{
		name:    "the scheduler is dead",
		inflict: func(c *campaign) { c.lab.StopController() },
		state:   api.SessionReady, cause: "slurm has not answered since …; the job was last seen on cn01; jobs run on meanwhile", within: unanswered,
		mend: func(c *campaign) { c.lab.StartController() }, again: asked,
	},
	{
		name:    "the job is cancelled elsewhere",
		inflict: func(c *campaign) { c.lab.Cancel(c.was.Job.ID) },
		state:   api.SessionEnded, cause: "the job was cancelled at … (job …)", code: api.CodeJobEnded, within: asked,
		mend: nothing, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job fails",
		inflict: (*campaign).killServer,
		state:   api.SessionEnded, cause: "the job failed with exit status 3 at … (job …); its log ends with:…the server was killed", code: api.CodeJobEnded, within: asked,
		mend: nothing, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job's node crashes",
		inflict: func(c *campaign) { c.lab.CrashNode(c.was.Job.Node) },
		state:   api.SessionEnded, cause: "the job's node failed at … (job …)…", code: api.CodeJobEnded, within: plus(30*time.Second, asked),
		mend: func(c *campaign) { c.lab.BootNode(c.was.Job.Node) }, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job is requeued on the other node",
		inflict: (*campaign).requeue,
		state:   api.SessionQueued, cause: "BeginTime, expected start …", within: asked,
		mend: (*campaign).startElsewhere, again: plus(30*time.Second, asked),
		moved: func(was, now api.Session) bool { return now.Job.Node != was.Job.Node },
	},
	{
		name:    "the job reaches its time limit",
		inflict: nothing,
		state:   api.SessionEnded, cause: "the job reached its time limit at … (job …)", code: api.CodeJobEnded, within: plus(2*time.Minute, asked),
		mend: nothing, person: "`tunctl up`", endsJob: true,
		beside: func(t *testing.T) *campaign {
			l := newLaptop(t, fmt.Sprintf(campaignConfig, "lab-inner", "cn02", `, "--time=1"`))
			return newCampaign(t, l, "lab-inner")
		},
	},
	{
		name:    "the agent is killed",
		inflict: (*campaign).killAgent,
		cause:   "the agent is not running: nothing is up", within: atOnce,
		mend: nothing, person: "`tunctl up`", again: atOnce,
	},
	{
		name:    "the disk of state and log is full while the page is open",
		inflict: func(c *campaign) { c.l.own.FillDisk(); c.shortenJob() },
		state:   api.SessionReady, cause: "tunctl cannot note down what it does: no space left on device", within: asked,
		mend: func(c *campaign) { c.l.own.FreeDisk() }, again: asked,
	},
	{
		name:    "the disk of state and log is full when a job is wanted",
		inflict: func(c *campaign) { c.l.own.FillDisk(); c.endAndTry() },
		state:   api.SessionFailed, cause: "nothing was submitted, since it could not be noted down first: …no space left on device", code: api.CodeFailed, within: asked,
		mend: func(c *campaign) { c.l.own.FreeDisk() }, person: "free some space, then `tunctl up`", endsJob: true,
	},
	{
		name:    "the home is read-only",
		inflict: func(c *campaign) { c.l.own.LockDisk(); c.endAndTry() },
		state:   api.SessionFailed, cause: "nothing was submitted, since it could not be noted down first: …read-only file system", code: api.CodeFailed, within: asked,
		mend: func(c *campaign) { c.l.own.UnlockDisk() }, person: "mend the disk, then `tunctl up`", endsJob: true,
	},
	{
		name:    "the host key is another",
		inflict: (*campaign).rotateHostKey,
		state:   api.SessionFailed, cause: "the host key of … has changed: …", code: api.CodeHostKey, within: atOnce,
		mend: func(c *campaign) { c.lab.RestoreHostKey(c.alias) }, person: "ask the site, do as the hint says, then `tunctl up`", again: atOnce,
	},
}

func (f fault) String() string {
	state := string(f.state)
	if state == "" {
		state = "no agent"
	}
	return fmt.Sprintf("%s (%s): %s", state, f.code, f.cause)
}

// shown reports whether this is what a person should see of the fault.
func (f fault) shown(s sighting) bool {
	if f.state == "" {
		return s.noAgent
	}
	return !s.noAgent && s.session.State == f.state && s.session.Code == f.code && matches(f.cause, s.session.Cause)
}

// matches compares words with a pattern in which … stands for anything.
func matches(pattern, words string) bool {
	parts := strings.Split(pattern, "…")
	rest, ok := strings.CutPrefix(words, parts[0])
	for _, part := range parts[1:] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, part)
	}
	return ok && (rest == "" || strings.HasSuffix(pattern, "…"))
}

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

func (c *campaign) killAgent() {
	c.t.Helper()
	c.signal(c.agentPID(), syscall.SIGKILL)
}

// asleep is longer than the agent takes for a delay (tunnel's wakeTick and wakeJump).
const asleep = 36 * time.Second

// sleep stops the agent and what it is connected to. When the agent goes on, the clock
// has jumped for it, as after a sleep of the laptop.
func (c *campaign) sleep() {
	c.t.Helper()
	pid := c.agentPID()
	c.signal(pid, syscall.SIGSTOP)
	c.lab.FreezeConns(c.alias)
	pause(c.t, asleep)
	c.began = time.Now()
	c.signal(pid, syscall.SIGCONT)
}

func (c *campaign) agentPID() int {
	c.t.Helper()
	st, err := c.l.client.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return st.Agent.PID
}

func (c *campaign) signal(pid int, sig syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

// rotateHostKey gives the server another key before anybody can log in again. Those who
// are connected elsewhere come first: the other servers of the node read the key, too.
func (c *campaign) rotateHostKey() {
	c.t.Helper()
	c.beside.Wait()
	c.lab.FreezeListener(c.alias)
	c.lab.KillConns(c.alias)
	c.lab.RotateHostKey(c.alias)
}

// endAndTry ends the job and has a person ask for another, in vain.
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
