package hosts

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
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// hostsAt are the hosts of a config. None is ever connected.
func hostsAt(t *testing.T, config string) *Hosts {
	t.Helper()
	dir := t.TempDir()
	paths := home.Paths{Config: filepath.Join(dir, "config.toml"), State: dir}
	if err := os.WriteFile(paths.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := state.Open(paths.StateFile())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return New(Options{
		Settings: settings.Open(paths, "", log), Store: store, Relays: filepath.Join(dir, "relays"), Log: log, Changed: func(api.Host) {},
		Connections: tunnel.DefaultLimits(), Jobs: remote.DefaultLimits(), Quota: time.Hour,
	})
}

const sites = `
[host.brazil]
ssh  = "ann@login.sdumont.lncc.br"
site = "sdumont"

[host.own]
site      = "narval"
scheduler = "pbs"
`

func TestWatchOptionsScheduler(t *testing.T) {
	a := hostsAt(t, sites)
	if got := a.WatchOptions("brazil").Scheduler; got != "slurm" {
		t.Errorf("scheduler %q, want the site's", got)
	}
	if got := a.WatchOptions("own").Scheduler; got != "pbs" {
		t.Errorf("scheduler %q, want the config's", got)
	}
	if got := a.WatchOptions("elsewhere").Scheduler; got != "" {
		t.Errorf("scheduler %q, want it found out", got)
	}
}

func TestWatchOptionsFewQueries(t *testing.T) {
	a := hostsAt(t, sites)
	for host, want := range map[string]time.Duration{"own": 0, "elsewhere": remote.DefaultLimits().QueryAfterSubmit} {
		if got := a.WatchOptions(host).Limits.QueryAfterSubmit; got != want {
			t.Errorf("%s: %s after a submission, want %s", host, got, want)
		}
	}
}

func TestSiteHint(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	a := hostsAt(t, "[host.vpn]\nsite = \"behind\"\n[host.open]\nsite = \"narval\"\n")
	folder := configs.SitesFolder(a.opt.Settings.Config().Path)
	site := fmt.Sprintf("title = \"Behind a VPN\"\nbefore = \"Connect to the VPN.\"\nprobe = %q\n", listener.Addr())
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "behind.toml"), []byte(site), 0o600)); err != nil {
		t.Fatal(err)
	}
	away := &api.Error{Code: api.CodeUnreachable, Message: "no answer", Hint: "is the network up?"}
	hint := func(host string, err error) string {
		e, _ := errors.AsType[*api.Error](a.WithSiteHint(t.Context(), host, err))
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

// strictSite has what a site can ask for of what queries its scheduler.
const strictSite = `title = "Strict"
scheduler = "slurm"
query = "10m"
private = "/work/{group}/.tunctl"
`

// strictHosts are those of a config whose host "strict" has that site.
func strictHosts(t *testing.T, host string) *Hosts {
	t.Helper()
	a := hostsAt(t, "[host.strict]\nsite = \"strict\"\n"+host)
	folder := configs.SitesFolder(a.opt.Settings.Config().Path)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "strict.toml"), []byte(strictSite), 0o600)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWatchOptionsOfSite(t *testing.T) {
	o := strictHosts(t, "").WatchOptions("strict")
	if o.Limits.Query != 10*time.Minute || o.Limits.QuerySlow < o.Limits.Query || o.Private != "/work/$(id -gn)/.tunctl" {
		t.Errorf("%+v", o)
	}
	if got := strictHosts(t, "private = \"/work/z19/.tunctl\"\n").WatchOptions("strict").Private; got != "/work/z19/.tunctl" {
		t.Errorf("the config's folder is not used: %q", got)
	}
	if o := hostsAt(t, "").WatchOptions("elsewhere"); o.Private != "" || o.Limits != remote.DefaultLimits() {
		t.Errorf("a host without a site: %+v", o)
	}
}

func TestChoicesOfALook(t *testing.T) {
	found := choicesIn(api.Look{
		Scheduler:  "slurm",
		Accounts:   []api.Account{{Name: "def-ann", QoS: []string{"long", "short"}}, {Name: "def-bob", QoS: []string{"short"}}},
		Partitions: []api.Partition{{Name: "gpu", GPUTypes: []string{"a100"}}},
	})
	const want = "map[account:[def-ann def-bob] gpu_type:[a100] partition:[gpu] project:[def-ann def-bob] qos:[long short] queue:[gpu] scheduler:[slurm]]"
	if got := fmt.Sprint(found); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
