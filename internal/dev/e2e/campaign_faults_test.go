//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
	repair  func(*campaign)
	person  string // what the user does, which ends with an up; empty where it recovers automatically
	again   bound  // until it is ready again; nil where a new job has to wait in the queue
	endsJob bool
	// moved tells a session that has come through from one that was not touched yet.
	moved func(was, now api.Session) bool
	// beside makes a campaign of its own at a lab of its own, for a fault that takes long.
	beside func(*testing.T) *campaign
}

var faults = []fault{
	{
		name:    "the server freezes while the page is in use",
		inflict: func(c *campaign) { c.use(); c.lab.FreezeListener(c.alias); c.lab.FreezeConns(c.alias) },
		state:   api.SessionReconnecting, cause: silent, within: unresponsive,
		repair: func(c *campaign) { c.lab.ContConns(c.alias); c.lab.ContListener(c.alias) }, again: waited,
	},
	{
		name:    "the server stays frozen",
		inflict: func(c *campaign) { c.use(); c.lab.FreezeListener(c.alias); c.lab.FreezeConns(c.alias) },
		state:   api.SessionReconnecting, cause: "waiting for login1.lab.test:22", within: replaced,
		repair: func(c *campaign) { c.lab.ContConns(c.alias); c.lab.ContListener(c.alias) }, again: waited,
	},
	{
		name:    "the connection is killed",
		inflict: func(c *campaign) { c.lab.KillConns(c.alias) },
		state:   api.SessionReconnecting, cause: "the connection to lab-named was lost: …", within: atOnce,
		repair: nothing, again: relogin,
	},
	{
		name:    "sshd is restarted and its connections end",
		inflict: func(c *campaign) { c.lab.FreezeListener(c.alias); c.lab.KillConns(c.alias); c.lab.StopSSHD(c.alias) },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 refused the connection…", within: atOnce,
		repair: func(c *campaign) { c.lab.StartSSHD(c.alias) }, again: retried,
	},
	{
		name:    "the network goes silent while the page is in use",
		inflict: func(c *campaign) { c.use(); c.lab.Cut("silent") },
		state:   api.SessionReconnecting, cause: silent, within: unacknowledged,
		repair: func(c *campaign) { c.lab.Restore("silent") }, again: waited,
	},
	{
		name:    "the network stays silent",
		inflict: func(c *campaign) { c.use(); c.lab.Cut("silent") },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 did not respond within …", within: noDial,
		repair: func(c *campaign) { c.lab.Restore("silent") }, again: waited,
	},
	{
		name:    "the network goes silent while nobody uses it",
		inflict: func(c *campaign) { c.lab.Cut("silent") },
		state:   api.SessionReconnecting, cause: silent, within: idleUnresponsive,
		repair: func(c *campaign) { c.lab.Restore("silent") }, again: retried,
	},
	{
		name:    "the Wi-Fi goes off",
		inflict: func(c *campaign) { c.lab.Cut("wifi") },
		state:   api.SessionReconnecting, cause: "login1.lab.test:22 cannot be reached: …", within: noticed,
		repair: func(c *campaign) { c.lab.Restore("wifi") }, again: relogin,
	},
	{
		name:    "the laptop's address changes",
		inflict: func(c *campaign) { c.lab.Roam() },
		state:   api.SessionReconnecting, cause: "lab-named does not respond: this computer no longer has the address of the connection…", within: noticed,
		repair: nothing, again: relogin,
	},
	{
		name:    "the laptop sleeps, and its clock jumps",
		inflict: (*campaign).sleep,
		state:   api.SessionReconnecting, cause: "lab-cert does not respond: no response …", within: plus(15*time.Second, noticed),
		repair: func(c *campaign) { c.lab.ContConns(c.alias) }, again: relogin,
		beside: func(t *testing.T) *campaign {
			l := newLaptop(t, fmt.Sprintf(campaignConfig, "lab-cert", "cn02", ""))
			return newCampaign(t, l, "lab-cert")
		},
	},
	{
		name:    "the name service is gone",
		inflict: func(c *campaign) { c.l.own.SilenceNames(); c.lab.KillConns(c.alias) },
		state:   api.SessionReconnecting, cause: "cannot look up \"login1.lab.test\": the DNS server did not respond…", within: dialled,
		repair: func(c *campaign) { c.l.own.AnswerNames() }, again: retried,
	},
	{
		name:    "the scheduler stalls",
		inflict: func(c *campaign) { c.lab.FreezeController() },
		state:   api.SessionReady, cause: "slurm has not responded since …; the job was last seen on cn01; jobs keep running", within: unanswered,
		repair: func(c *campaign) { c.lab.ContController() }, again: asked,
	},
	{
		name:    "the scheduler is dead",
		inflict: func(c *campaign) { c.lab.StopController() },
		state:   api.SessionReady, cause: "slurm has not responded since …; the job was last seen on cn01; jobs keep running", within: unanswered,
		repair: func(c *campaign) { c.lab.StartController() }, again: asked,
	},
	{
		name:    "the job is cancelled elsewhere",
		inflict: func(c *campaign) { c.lab.Cancel(c.was.Job.ID) },
		state:   api.SessionEnded, cause: "job … was cancelled at …", code: api.CodeJobEnded, within: asked,
		repair: nothing, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job fails",
		inflict: (*campaign).killServer,
		state:   api.SessionEnded, cause: "job … failed with exit status 3 at …; its log ends with:…the server was killed", code: api.CodeJobEnded, within: asked,
		repair: nothing, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job's node crashes",
		inflict: func(c *campaign) { c.lab.CrashNode(c.was.Job.Node) },
		state:   api.SessionEnded, cause: "job … ended because its node failed at …", code: api.CodeJobEnded, within: plus(30*time.Second, asked),
		repair: func(c *campaign) { c.lab.BootNode(c.was.Job.Node) }, person: "`tunctl up`", endsJob: true,
	},
	{
		name:    "the job is requeued on the other node",
		inflict: (*campaign).requeue,
		state:   api.SessionQueued, cause: "the start time is not reached yet; a requeued job waits two minutes, expected start …", within: asked,
		repair: (*campaign).startElsewhere, again: plus(30*time.Second, asked),
		moved: func(was, now api.Session) bool { return now.Job.Node != was.Job.Node },
	},
	{
		name:    "the job reaches its time limit",
		inflict: nothing,
		state:   api.SessionEnded, cause: "job … reached its time limit at …", code: api.CodeJobEnded, within: plus(2*time.Minute, asked),
		repair: nothing, person: "`tunctl up`", endsJob: true,
		beside: func(t *testing.T) *campaign {
			l := newLaptop(t, fmt.Sprintf(campaignConfig, "lab-inner", "cn02", `, "--time=1"`))
			return newCampaign(t, l, "lab-inner")
		},
	},
	{
		name:    "the agent is killed",
		inflict: (*campaign).killAgent,
		cause:   "the agent is not running: nothing is up", within: atOnce,
		repair: nothing, person: "`tunctl up`", again: atOnce,
	},
	{
		name:    "the agent is killed, with start at login on",
		inflict: (*campaign).killAgent,
		cause:   "the agent is not running: nothing is up", within: atOnce,
		repair: (*campaign).restartAgent, again: plus(5*time.Second, relogin),
	},
	{
		name:    "the disk of state and log is full while the page is open",
		inflict: func(c *campaign) { c.l.own.FillDisk(); c.shortenJob() },
		state:   api.SessionReady, cause: "tunctl cannot save its state: no space left on device", within: asked,
		repair: func(c *campaign) { c.l.own.FreeDisk() }, again: asked,
	},
	{
		name:    "the disk of state and log is full when a job is wanted",
		inflict: func(c *campaign) { c.l.own.FillDisk(); c.endAndTry() },
		state:   api.SessionFailed, cause: "nothing was submitted: …no space left on device", code: api.CodeFailed, within: asked,
		repair: func(c *campaign) { c.l.own.FreeDisk() }, person: "free some space, then `tunctl up`", endsJob: true,
	},
	{
		name:    "the home is read-only",
		inflict: func(c *campaign) { c.l.own.LockDisk(); c.endAndTry() },
		state:   api.SessionFailed, cause: "nothing was submitted: …read-only file system", code: api.CodeFailed, within: asked,
		repair: func(c *campaign) { c.l.own.UnlockDisk() }, person: "make the disk writable, then `tunctl up`", endsJob: true,
	},
	{
		name:    "the host key is another",
		inflict: (*campaign).rotateHostKey,
		state:   api.SessionNeedsLogin, cause: "the host key of … has changed: …", code: api.CodeHostKey, within: atOnce,
		repair: func(c *campaign) { c.lab.RestoreHostKey(c.alias) }, person: "ask the site, follow the hint, then `tunctl up`", again: atOnce,
	},
}

func (f fault) String() string {
	state := string(f.state)
	if state == "" {
		state = "no agent"
	}
	return fmt.Sprintf("%s (%s): %s", state, f.code, f.cause)
}

// shown reports whether this is what the user should see of the fault.
func (f fault) shown(s sighting) bool {
	if f.state == "" {
		return s.noAgent
	}
	told := matches(f.cause, s.session.Cause) || f.cause == silent && matches(silentAfterChange, s.session.Cause)
	return !s.noAgent && s.session.State == f.state && s.session.Code == f.code && told
}

// What is shown of a host that is silent; the other where something else changes this machine's network
// meanwhile, as the labs of other tests do.
const (
	silent            = "lab-named is not responding since …"
	silentAfterChange = "lab-named does not respond: no response within … after the network changed"
)

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
