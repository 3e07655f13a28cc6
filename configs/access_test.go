package configs

import (
	"strings"
	"testing"
	"time"
)

const strictSite = `title = "Strict"
country = "Finland"
verified = false
scheduler = "slurm"
dial = ["{node}-nmn", "{node}.hsn.example.org", "{address}"]
require = ["--account=PROJECT", "-l filesystems=home:eagle", "-G GROUP", "--exclusive"]
private = "/work/{group}/{user}/.tunctl"
before = "Connect to the VPN."

[limits]
sessions = 1
login_spacing = "5m"
retry = "1m"
refusals = 1

[certificate]
lifetime = "24h"
renew = "step ssh login MAIL"
file = "~/.ssh/strict-cert.pub"

[entrance.main]
host = "login.example.org"
port = 2222
jump = "gate.example.org"
aliases = ["login*.int.example.org", "old.example.org"]

[queue.gpu]
gpus = 4
gpu_types = ["a100", "v100"]
`

func parsed(t *testing.T, text string, base ...Site) (Site, error) {
	t.Helper()
	return parseSite("s.toml", "s", []byte(text), func(name string) (Site, bool) {
		for _, s := range base {
			if s.Name == name {
				return s, true
			}
		}
		return Site{}, false
	})
}

func TestASiteSaysHowItIsReachedAndWhatItForbids(t *testing.T) {
	s, err := parsed(t, strictSite)
	if err != nil {
		t.Fatal(err)
	}
	if s.Country != "Finland" || s.Verified || len(s.Dial) != 3 || len(s.Require) != 4 || s.Private == "" {
		t.Errorf("%+v", s)
	}
	if want := (SiteLimits{Sessions: 1, LoginSpacing: Period(5 * time.Minute), Retry: Period(time.Minute), Refusals: 1}); s.Limits != want {
		t.Errorf("limits %+v", s.Limits)
	}
	if c := s.Certificate; c.Lifetime.Words() != "24 h" || c.Renew == "" || c.File == "" {
		t.Errorf("certificate %+v", c)
	}
	e, ok := s.EntranceAt("LOGIN3.int.example.org")
	if !ok || e.Port != 2222 || e.Jump != "gate.example.org" {
		t.Errorf("entrance %+v, %v", e, ok)
	}
	if _, ok := s.EntranceAt("example.org"); ok {
		t.Error("another host is taken for an entrance")
	}
	if got := s.ProbeAt("old.example.org"); got != "old.example.org:2222" {
		t.Errorf("the probe is %q", got)
	}
}

func TestASiteThatIsLikeAnotherIsAsSureAndAsStrict(t *testing.T) {
	base, err := parsed(t, strictSite)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parsed(t, "like = \"base\"\n[limits]\nrefusals = 2\n", Site{Name: "base", Title: base.Title, Limits: base.Limits, Dial: base.Dial})
	if err != nil || s.Verified || s.Limits.Sessions != 1 || s.Limits.Refusals != 2 || len(s.Dial) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parsed(t, "title = \"x\"\n"); err != nil || !s.Verified {
		t.Errorf("a site that says nothing is not verified: %v", err)
	}
}

func TestWrongKeysOfAccessAreRefusedWithAnExample(t *testing.T) {
	for text, want := range map[string]string{
		`dial = ["nodes.example.org"]`:                        "neither {address} nor a host name with {node}",
		`dial = ["{node} x"]`:                                 "neither {address}",
		`require = ["account"]`:                               "is not an option of a job",
		`require = ["-l a=1 -l b=2"]`:                         "is not an option of a job",
		`private = "/work/{project}/.tunctl"`:                 "may contain {user} and {group}",
		`private = "/work/$(id)/.tunctl"`:                     "may contain {user} and {group}",
		`private = "$SCRATCH-2/.tunctl"`:                      "starts with /, ~/ or a variable",
		`private = "/work/../.tunctl"`:                        "starts with /",
		`private = "/work/alice"`:                             "ends in /.tunctl",
		`limits = 1`:                                          "must be a table",
		"[limits]\nsessions = 0":                              `"sessions" must be a number from 1 to 1000`,
		"[limits]\nlogin_spacing = \"soon\"":                  `is not a time`,
		"[limits]\nmax = 1":                                   `unknown key "max"`,
		"[certificate]\nlifetime = \"2s\"":                    "too short: the least is 1 min",
		"[certificate]\nfile = \"~/.ssh/id\"":                 "does not end in -cert.pub",
		"[entrance.a]\nhost = \"b\"\nport = 70000":            "must be a number from 1 to 65535",
		"[entrance.a]\nhost=\"b\"\naliases=[\"-x\"]":          "is not a host name",
		"[entrance.a]\nhost=\"b\"\nhost_keys=[\"MD5:0b:ef\"]": "is not a fingerprint",
		"[entrance.a]\nhost=\"b\"\njump=\"-x\"":               "is not a valid ssh host",
		"[queue.a]\ngpu_types = [\"a b\"]":                    "is not one word",
	} {
		if _, err := parsed(t, "title = \"x\"\n"+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
