package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
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

func TestTheHostKeysThatASitePublishesAreThoseOfItsEntrance(t *testing.T) {
	site := configs.Site{Entrances: []configs.Entrance{{Host: "login.example.org", HostKeys: []string{"SHA256:a"}}, {Host: "gpu.example.org"}}}
	for host, want := range map[string]int{"login.example.org": 1, "gpu.example.org": 0, "other.example.org": 0} {
		s := sshconfig.Settings{Hostname: host}
		preset(&s, configs.Host{}, site)
		if len(s.PublishedHostKeys) != want {
			t.Errorf("%s: %q", host, s.PublishedHostKeys)
		}
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
	var logged bytes.Buffer
	a.log = slog.New(slog.NewTextHandler(&logged, nil))
	read := a.allSites()
	if again := a.allSites(); &again[0] == &read[0] {
		t.Error("a file that could not be read is not tried again")
	}
	if n := strings.Count(logged.String(), "cannot read a site file"); n != 1 {
		t.Errorf("the log has it %d times", n)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := a.allSites().Find("own"); err == nil {
		t.Error("a removed site is still known")
	}
}

// strictSite has what a site can ask for besides its job.
const strictSite = `title = "Strict"
scheduler = "slurm"
query = "10m"
private = "/work/{group}/.tunctl"
dial = ["{node}-nmn", "{node}.hsn.example.org"]
[limits]
sessions = 1
login_spacing = "5m"
retry = "2m"
refusals = 1
[certificate]
file = "~/.ssh/strict-cert.pub"
[entrance.main]
host = "login.strict.example"
port = 2222
jump = "gate.strict.example"
`

// strictAgent is an agent whose host "strict" has that site.
func strictAgent(t *testing.T, host string) *Agent {
	t.Helper()
	a := agentAt(t, "[host.strict]\nsite = \"strict\"\n"+host+"[session.jupyter]\nhost = \"strict\"\nsubmit = \"~/j.sh\"\n")
	folder := configs.SitesFolder(a.opt.Paths.Config)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "strict.toml"), []byte(strictSite), 0o600)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestASitesEntranceHasItsPortAndItsHop(t *testing.T) {
	a := strictAgent(t, "")
	s := sshconfig.Settings{Hostname: "login.strict.example", Port: 22, User: "ann"}
	a.preset("strict", &s)
	if s.Port != 2222 || len(s.ProxyJump) != 1 || s.ProxyJump[0] != "ann@gate.strict.example" {
		t.Errorf("port %d, jump %q", s.Port, s.ProxyJump)
	}
	own := sshconfig.Settings{Hostname: "login.strict.example", Port: 8022, ProxyCommand: "nc %h %p"}
	a.preset("strict", &own)
	if own.Port != 8022 || own.ProxyJump != nil {
		t.Errorf("the person's own settings are not kept: port %d, jump %q", own.Port, own.ProxyJump)
	}
	other := sshconfig.Settings{Hostname: "elsewhere.example", Port: 22}
	a.preset("strict", &other)
	if other.Port != 22 || other.ProxyJump != nil {
		t.Errorf("another host is taken for the entrance: %+v", other)
	}
}

func TestASitesLimitsAndCertificateReachTheConnection(t *testing.T) {
	a := strictAgent(t, "")
	s := sshconfig.Settings{IdentityFiles: []string{"/k"}}
	a.preset("strict", &s)
	if s.MaxSessions != 1 || s.LoginSpacing != 5*time.Minute || s.RetryMin != 2*time.Minute || s.Refusals != 1 {
		t.Errorf("%+v", s)
	}
	key := configs.LocalPath("~/.ssh/strict")
	if len(s.CertificateFiles) != 1 || s.CertificateFiles[0] != key+"-cert.pub" || s.IdentityFiles[0] != key || s.IdentityFiles[1] != "/k" {
		t.Errorf("certificate %q, keys %q", s.CertificateFiles, s.IdentityFiles)
	}
	own := sshconfig.Settings{CertificateFiles: []string{"/c"}}
	a.preset("strict", &own)
	if len(own.CertificateFiles) != 1 || own.CertificateFiles[0] != "/c" || own.IdentityFiles != nil {
		t.Errorf("the person's own certificate is not kept: %+v", own)
	}
}

func TestASitesIntervalAndFolderReachTheScheduler(t *testing.T) {
	o := strictAgent(t, "").watchOptions("strict")
	if o.Limits.Query != 10*time.Minute || o.Limits.QuerySlow < o.Limits.Query || o.Private != "/work/$(id -gn)/.tunctl" {
		t.Errorf("%+v", o)
	}
	if got := strictAgent(t, "private = \"/work/z19/.tunctl\"\n").watchOptions("strict").Private; got != "/work/z19/.tunctl" {
		t.Errorf("the config's folder is not used: %q", got)
	}
	if o := agentAt(t, "").watchOptions("elsewhere"); o.Private != "" || o.Limits != DefaultLimits().Jobs {
		t.Errorf("a host without a site: %+v", o)
	}
}

func TestASitesNamesForANodeAreDialledFirst(t *testing.T) {
	a := strictAgent(t, "")
	s, err := a.session("jupyter")
	if err != nil {
		t.Fatal(err)
	}
	nodes := newJobNodes(s, a.pool.Host("strict"), nil)
	for _, c := range []struct {
		announced, node string
		want            []string
	}{
		{"cn01.int", "cn01", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"127.0.0.1", "cn01.int", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"10.253.1.2", "cn01", []string{"10.253.1.2", "cn01-nmn", "cn01.hsn.example.org", "cn01"}}, // the job knows its address
		{"cn02", "", []string{"cn02-nmn", "cn02.hsn.example.org", "cn02"}},
	} {
		got := nodes.dialNames(t.Context(), c.announced, c.node, time.Now())
		if !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%q on %q: %q, want %q", c.announced, c.node, got, c.want)
		}
	}
}
