package settings

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/dev/must"
	"tunctl/internal/home"
	"tunctl/tunnel/sshconfig"
)

// settingsAt are the settings of a config.
func settingsAt(t *testing.T, config string) *Settings {
	t.Helper()
	paths := home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	if err := os.WriteFile(paths.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(paths, "", slog.New(slog.NewTextHandler(t.Output(), nil)))
}

const sitesConfig = `
[host.brazil]
ssh  = "ann@login.sdumont.lncc.br"
site = "sdumont"

[host.typo]
site = "sdumnot"
`

func TestPresetOfSite(t *testing.T) {
	a := settingsAt(t, sitesConfig)
	var open sshconfig.Settings
	a.Resolver().Preset("brazil", &open)
	if open.ServerAliveInterval != 30*time.Second || open.IPQoS != "throughput" {
		t.Errorf("the site's wishes are not followed: %v, %q", open.ServerAliveInterval, open.IPQoS)
	}
	own := sshconfig.Settings{ServerAliveInterval: time.Minute, IPQoS: "lowdelay"}
	a.Resolver().Preset("brazil", &own)
	if own.ServerAliveInterval != time.Minute || own.IPQoS != "lowdelay" {
		t.Errorf("the person's own settings are not kept: %v, %q", own.ServerAliveInterval, own.IPQoS)
	}
	var other sshconfig.Settings
	a.Resolver().Preset("elsewhere", &other)
	a.Resolver().Preset("typo", &other)
	if other.ServerAliveInterval != 0 {
		t.Error("a host without a site is given one")
	}
}

func TestPresetHostKeys(t *testing.T) {
	site := configs.Site{Help: []string{"https://example.org"}, HostKeysPage: "https://example.org/keys", Entrances: []configs.Entrance{{Host: "login.example.org", HostKeys: []string{"SHA256:a"}}, {Host: "gpu.example.org"}}}
	for host, want := range map[string]int{"login.example.org": 1, "gpu.example.org": 0, "other.example.org": 0} {
		s := sshconfig.Settings{Hostname: host}
		preset(&s, configs.Host{}, site, home.In(t.TempDir()))
		if len(s.PublishedHostKeys) != want || s.SiteHelp != "https://example.org" || s.HostKeysPage != site.HostKeysPage {
			t.Errorf("%s: %q, %q, %q", host, s.PublishedHostKeys, s.SiteHelp, s.HostKeysPage)
		}
	}
}

// strictSite has what a site can ask for of connections.
const strictSite = `title = "Strict"
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

// strictSettings are those of a config whose host "strict" has that site.
func strictSettings(t *testing.T, host string) *Settings {
	t.Helper()
	a := settingsAt(t, "[host.strict]\nsite = \"strict\"\n"+host)
	folder := configs.SitesFolder(a.Config().Path)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "strict.toml"), []byte(strictSite), 0o600)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPresetEntrance(t *testing.T) {
	a := strictSettings(t, "")
	s := sshconfig.Settings{Hostname: "login.strict.example", Port: 22, User: "ann"}
	a.Resolver().Preset("strict", &s)
	if s.Port != 2222 || len(s.ProxyJump) != 1 || s.ProxyJump[0] != "ann@gate.strict.example" {
		t.Errorf("port %d, jump %q", s.Port, s.ProxyJump)
	}
	own := sshconfig.Settings{Hostname: "login.strict.example", Port: 8022, ProxyCommand: "nc %h %p"}
	a.Resolver().Preset("strict", &own)
	if own.Port != 8022 || own.ProxyJump != nil {
		t.Errorf("the person's own settings are not kept: port %d, jump %q", own.Port, own.ProxyJump)
	}
	other := sshconfig.Settings{Hostname: "elsewhere.example", Port: 22}
	a.Resolver().Preset("strict", &other)
	if other.Port != 22 || other.ProxyJump != nil {
		t.Errorf("another host is taken for the entrance: %+v", other)
	}
}

func TestPresetLimitsAndCertificate(t *testing.T) {
	a := strictSettings(t, "")
	s := sshconfig.Settings{IdentityFiles: []string{"/k"}}
	a.Resolver().Preset("strict", &s)
	if s.MaxSessions != 1 || s.LoginSpacing != 5*time.Minute || s.RetryMin != 2*time.Minute || s.Refusals != 1 {
		t.Errorf("%+v", s)
	}
	key := configs.LocalPath("~/.ssh/strict")
	if len(s.CertificateFiles) != 1 || s.CertificateFiles[0] != key+"-cert.pub" || s.IdentityFiles[0] != key || s.IdentityFiles[1] != "/k" {
		t.Errorf("certificate %q, keys %q", s.CertificateFiles, s.IdentityFiles)
	}
	own := sshconfig.Settings{CertificateFiles: []string{"/c"}}
	a.Resolver().Preset("strict", &own)
	if len(own.CertificateFiles) != 1 || own.CertificateFiles[0] != "/c" || own.IdentityFiles != nil {
		t.Errorf("the person's own certificate is not kept: %+v", own)
	}
}

func TestDetector(t *testing.T) {
	d := settingsAt(t, "[app.mine]\npatterns = ['^mine at (?P<host>\\S+):(?P<port>\\d+)']\n").Detector("")
	_, _ = d.Write([]byte("mine at cn01:8080\n"))
	d.Flush()
	if f := d.Finding(); f.App != "mine" || f.Host != "cn01" || f.Port != 8080 {
		t.Errorf("%+v", f)
	}
}

func TestPresetOwnKey(t *testing.T) {
	paths := home.Paths{State: t.TempDir()}
	key := paths.Key("ann", "login.example.org", 22)
	must.Do(t, errors.Join(os.MkdirAll(paths.Keys(), 0o700), os.WriteFile(key, nil, 0o600)))
	for user, want := range map[string]string{"ann": key, "bob": ""} {
		s := sshconfig.Settings{User: user, Hostname: "login.example.org", Port: 22}
		preset(&s, configs.Host{}, configs.Site{}, paths)
		if s.OwnKey != want || len(s.IdentityFiles) > 0 {
			t.Errorf("%s has the key %q and %q", user, s.OwnKey, s.IdentityFiles)
		}
	}
}
