package e2e

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab/real"
)

// fault is something that befalls a session in use.
type fault struct {
	name  string
	begin func(*real.Lab)
	last  time.Duration // how long it lasts
	end   func(*real.Lab)
	// meanwhile is the state that status shows while it lasts.
	meanwhile api.SessionState
}

var faults = []fault{
	{
		"the link is cut silently", func(l *real.Lab) { l.Cut("silent") }, 20 * time.Second,
		func(l *real.Lab) { l.Restore("silent") }, api.SessionReconnecting,
	},
	{
		"the connection freezes", func(l *real.Lab) { l.FreezeConns("lab-login") }, 0,
		func(l *real.Lab) { l.ContConns("lab-login") }, api.SessionReconnecting,
	},
	{
		"the login node's sshd is restarted and its connections end",
		func(l *real.Lab) { l.FreezeListener("lab-login"); l.KillConns("lab-login") }, 2 * time.Second,
		func(l *real.Lab) { l.ContListener("lab-login"); l.RestartSSHD("lab-login") }, api.SessionReconnecting,
	},
	{
		"the laptop's address changes", func(l *real.Lab) { l.Roam() }, 0,
		func(*real.Lab) {}, api.SessionReconnecting,
	},
	{
		"the scheduler does not answer", func(l *real.Lab) { l.StopController() }, 15 * time.Second,
		func(l *real.Lab) { l.StartController() }, api.SessionReady,
	},
}

func TestASessionSurvivesAtTheSameAddress(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	l := newLaptop(t, notebookConfig)
	l.run("up", "--no-open")
	before := l.status()
	base, token := l.page()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			f.begin(l.lab)
			meanwhile, states := l.until(string(f.meanwhile), is(f.meanwhile))
			t.Logf("meanwhile: %s: %s", meanwhile.State, meanwhile.Cause)
			pause(t, f.last)
			f.end(l.lab)
			mended := time.Now()
			if err := fetch(base, token, patience); err != nil {
				t.Fatalf("through the same address: %v\n%v", err, states)
			}
			took := time.Since(mended)
			after, _ := l.until("ready", is(api.SessionReady))
			if after.Local != before.Local || after.Job.ID != before.Job.ID {
				t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
			}
			t.Logf("usable again %v after it was over", took.Round(time.Millisecond))
		})
	}
	l.run("down", "--cancel")
}

// pause lets a fault last. It is the fault's own length, not a wait for something.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
