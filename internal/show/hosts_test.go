package show

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func TestAHostsPageTellsAllThatIsKnownOfIt(t *testing.T) {
	key := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	up := api.Host{
		Alias: "narval", Hostname: "narval.example.org", Port: 22, User: "alice", Source: "ssh -G",
		IdentityFiles: []string{key, key + "-missing"}, ProxyJump: "gate,jump",
		State: api.HostUp, Since: now.Add(-time.Hour), RTTMs: 24.12, Auth: "publickey+keyboard-interactive",
		LoginNode: "narval3", Via: []string{"gate", "jump"},
		Algorithms: &api.Algorithms{KeyExchange: "mlkem768x25519-sha256", HostKey: "ssh-ed25519", Cipher: "aes128-gcm@openssh.com"},
	}
	lent := up
	lent.Transport, lent.TransportWhy, lent.Algorithms = api.TransportOpenSSH, "the host wants Kerberos", nil
	blocked := api.Host{
		Alias: "narval", Hostname: "narval.example.org", Port: 22, User: "alice", Source: "ssh_config",
		State: api.HostBlocked, Since: now.Add(-time.Hour), Cause: "narval refused your key", Hint: "is it the right one?",
		ProxyCommand: "corkscrew proxy 8080",
	}
	for name, tt := range map[string]struct {
		host api.Host
		want string
	}{
		"connected": {up, `narval: connected since 11:00
  account        alice@narval.example.org:22
  via            gate, then jump
  login node     narval3
  login method   key, then prompt
  round trip     24.1 ms
  key exchange   mlkem768x25519-sha256
  host key       ssh-ed25519
  cipher         aes128-gcm@openssh.com
  MAC            built into the cipher
  key files      ` + key + `
  settings from  ssh -G
`},
		"by the ssh program": {lent, `narval: connected since 11:00
  account        alice@narval.example.org:22
  via            gate, then jump
  login node     narval3
  login method   key, then prompt
  round trip     24.1 ms
  transport      the ssh program: the host wants Kerberos
  key files      ` + key + `
  settings from  ssh -G
`},
		"refused": {blocked, `narval: blocked since 11:00
  narval refused your key
  → is it the right one?
  account        alice@narval.example.org:22
  via            corkscrew proxy 8080
  settings from  ssh_config
`},
	} {
		if got := HostPage(term.Layout{}, tt.host, now); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, tt.want)
		}
	}
}

func TestTheEndOfACertificateIsShownBeforeItMatters(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	for name, x := range map[string]struct {
		left       time.Duration
		page, list string // "": nothing
	}{
		"soon":      {20 * time.Minute, "expires 2026-03-02 12:20, in 20 min", "certificate expires 2026-03-02 12:20, in 20 min"},
		"in a week": {7 * 24 * time.Hour, "expires 2026-03-09 12:00", ""},
		"just over": {-time.Minute, "expired 2026-03-02 11:59: get a new one", "certificate expired 2026-03-02 11:59"},
		"long over": {-48 * time.Hour, "expired 2026-02-28 12:00", ""}, // it may be of another host
	} {
		h := api.Host{Alias: "narval", User: "alice", Hostname: "n", Port: 22, State: api.HostUp, CertificateEnds: now.Add(x.left)}
		page := HostPage(term.Layout{}, h, now)
		lists := []string{HostList(term.Layout{}, []api.Host{h}, now), Status(term.Layout{}, api.Status{Hosts: []api.Host{h}}, false, now)}
		if !strings.Contains(page, x.page) {
			t.Errorf("%s: %q", name, page)
		}
		for _, list := range lists {
			if strings.Contains(list, "certificate") != (x.list != "") || !strings.Contains(list, x.list) {
				t.Errorf("%s: %q", name, list)
			}
		}
	}
}

func TestALinkOfALoginIsWholeInStatusAndHosts(t *testing.T) {
	link := "https://iam.example.org/device?user_code=" + strings.Repeat("x", 200)
	h := api.Host{Alias: "narval", State: api.HostConnecting, Asking: api.PromptQuestion, Cause: api.AskedElsewhere, Links: []string{link}}
	narrow := term.Layout{Width: 40}
	for _, text := range []string{
		HostPage(narrow, h, time.Now()), HostList(narrow, []api.Host{h}, time.Now()), Status(narrow, api.Status{Hosts: []api.Host{h}}, false, time.Now()),
	} {
		if !strings.Contains(text, "  "+link+"\n") {
			t.Errorf("%q", text)
		}
	}
}
