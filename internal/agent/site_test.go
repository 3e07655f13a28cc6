package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/tunnel/sshconfig"
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
	var open sshconfig.Settings
	a.preset("brazil", &open)
	if open.ServerAliveInterval != 30*time.Second || open.IPQoS != "throughput" {
		t.Errorf("the site's wishes are not followed: %v, %q", open.ServerAliveInterval, open.IPQoS)
	}
	own := sshconfig.Settings{ServerAliveInterval: time.Minute, IPQoS: "lowdelay"}
	a.preset("brazil", &own)
	if own.ServerAliveInterval != time.Minute || own.IPQoS != "lowdelay" {
		t.Errorf("the person's own settings are not kept: %v, %q", own.ServerAliveInterval, own.IPQoS)
	}
	var other sshconfig.Settings
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

func TestASiteThatAsksForFewQueriesGetsNoneSoonAfterASubmission(t *testing.T) {
	a := agentAt(t, sites)
	for host, want := range map[string]time.Duration{"own": 0, "elsewhere": DefaultLimits().Jobs.QueryAfterSubmit} {
		if got := a.watchOptions(host).Limits.QueryAfterSubmit; got != want {
			t.Errorf("%s: %s after a submission, want %s", host, got, want)
		}
	}
}

func TestASessionForAJobIsCalledAfterHostAndJob(t *testing.T) {
	for id, want := range map[string]string{"48213": "ann-narval-48213", "1001.pbs101": "ann-narval-1001", "54_[2-5%2]": "ann-narval-54_-2-5-2"} {
		if got := attachedName("ann@narval", id); got != want {
			t.Errorf("attachedName(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestAHostOutOfReachTellsWhatItsSiteWantsBeforeSSH(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	a := agentAt(t, "[host.vpn]\nsite = \"behind\"\n[host.open]\nsite = \"narval\"\n")
	folder := configs.SitesFolder(a.opt.Paths.Config)
	site := fmt.Sprintf("title = \"Behind a VPN\"\nbefore = \"Connect to the VPN.\"\nprobe = %q\n", listener.Addr())
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "behind.toml"), []byte(site), 0o600)); err != nil {
		t.Fatal(err)
	}
	away := &api.Error{Code: api.CodeUnreachable, Message: "no answer", Hint: "is the network up?"}
	hint := func(host string, err error) string {
		e, _ := asAPI(a.withSiteHint(t.Context(), host, err))
		return e.Hint
	}
	if got := hint("vpn", away); !strings.Contains(got, "accepts") || strings.Contains(got, "Connect to the VPN.") {
		t.Errorf("with the VPN on: %q", got)
	}
	_ = listener.Close()
	if got := hint("vpn", away); !strings.Contains(got, "does not respond from this network. Connect to the VPN.") {
		t.Errorf("with the VPN off: %q", got)
	}
	if got := hint("open", away); got != away.Hint {
		t.Errorf("where nothing must be true before: %q", got)
	}
	if refused := (&api.Error{Code: api.CodeAuth, Hint: "another key"}); hint("vpn", refused) != refused.Hint {
		t.Error("a refused login is no matter of the network")
	}
}

func TestSiteFilesAreReadAgainOnlyWhenOneHasChanged(t *testing.T) {
	a := agentAt(t, "")
	folder := configs.SitesFolder(a.opt.Paths.Config)
	readOnce := func(what string) {
		t.Helper()
		read := a.allSites()
		if again := a.allSites(); &again[0] != &read[0] {
			t.Errorf("%s: the sites were read twice", what)
		}
	}
	readOnce("without a folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "own.toml")
	written := time.Now()
	for _, name := range []string{"First site", "Other site", "A longer name"} {
		text := fmt.Sprintf("title = %q\nscheduler = \"slurm\"\n", name)
		err := os.WriteFile(file, []byte(text), 0o600)
		if err == nil {
			err = os.Chtimes(file, written, written) // two edits within what the file system tells apart
		}
		if err != nil {
			t.Fatal(err)
		}
		if site, err := a.allSites().Find("own"); err != nil || site.Title != name {
			t.Errorf("%q, %v; want %q", site.Title, err, name)
		}
	}
	if err := os.Chtimes(file, written, written.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	readOnce("with an old file")
	bad := filepath.Join(folder, "bad.toml")
	if err := os.WriteFile(bad, []byte("titel = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(bad, written, written.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	read := a.allSites()
	if again := a.allSites(); &again[0] == &read[0] {
		t.Error("a file that could not be read is not tried again")
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := a.allSites().Find("own"); err == nil {
		t.Error("a removed site is still known")
	}
}
