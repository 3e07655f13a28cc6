package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/internal/home"
	"tunctl/tunnel"
)

// agentAt is an agent that never serves, with a config.
func agentAt(t *testing.T, config string) *Agent {
	t.Helper()
	dir := t.TempDir()
	paths := home.Paths{Config: filepath.Join(dir, "config.toml"), State: dir, Socket: filepath.Join(dir, "s")}
	if err := os.WriteFile(paths.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Paths: paths, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const sites = `
[host.brazil]
ssh  = "ann@login.sdumont.lncc.br"
site = "sdumont"

[host.typo]
site = "sdumnot"

[host.own]
site      = "narval"
scheduler = "pbs"
`

func TestASiteFillsInWhatThePersonLeavesOpen(t *testing.T) {
	a := agentAt(t, sites)
	var open tunnel.Settings
	a.preset("brazil", &open)
	if open.ServerAliveInterval != 30*time.Second || open.IPQoS != "throughput" {
		t.Errorf("the site's wishes are not followed: %v, %q", open.ServerAliveInterval, open.IPQoS)
	}
	own := tunnel.Settings{ServerAliveInterval: time.Minute, IPQoS: "lowdelay"}
	a.preset("brazil", &own)
	if own.ServerAliveInterval != time.Minute || own.IPQoS != "lowdelay" {
		t.Errorf("the person's own settings are not kept: %v, %q", own.ServerAliveInterval, own.IPQoS)
	}
	var other tunnel.Settings
	a.preset("elsewhere", &other)
	a.preset("typo", &other)
	if other.ServerAliveInterval != 0 {
		t.Error("a host without a site is given one")
	}
}

func TestTheConfigWinsOverTheSite(t *testing.T) {
	a := agentAt(t, sites)
	if got := a.watchOptions("brazil").Scheduler; got != "slurm" {
		t.Errorf("scheduler %q, want the site's", got)
	}
	if got := a.watchOptions("own").Scheduler; got != "pbs" {
		t.Errorf("scheduler %q, want the config's", got)
	}
	if got := a.watchOptions("elsewhere").Scheduler; got != "" {
		t.Errorf("scheduler %q, want it found out", got)
	}
}

func TestASessionForAJobIsCalledAfterHostAndJob(t *testing.T) {
	for id, want := range map[string]string{"48213": "ann-narval-48213", "1001.pbs101": "ann-narval-1001", "54_[2-5%2]": "ann-narval-54_-2-5-2"} {
		if got := attachedName("ann@narval", id); got != want {
			t.Errorf("attachedName(%q) = %q, want %q", id, got, want)
		}
	}
}
