package hostkey

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"

	"golang.org/x/crypto/ssh"
)

// silent is an Asker that nobody hears.
type silent struct{}

func (silent) Prompt(context.Context, api.Prompt) (api.Answer, error) {
	return api.Answer{}, failure.ErrNobody
}

func (silent) Warn(string) {}

func TestOtherKeyOfSharedName(t *testing.T) {
	const remove, add = "ssh-keygen -R", "several machines share this name"
	two := []string{"192.0.2.2", "192.0.2.9"}
	for name, tt := range map[string]struct {
		addresses []string
		known     int // keys in known_hosts
		published string
		jump      bool
		want, not string // in the hint
	}{
		"one machine":                    {[]string{"192.0.2.2"}, 1, "", false, remove, add},
		"one machine with two addresses": {[]string{"192.0.2.2", "2001:db8::2"}, 1, "", false, remove, add},
		"a name that is not known here":  {nil, 1, "", false, remove, add},
		"a name for another host":        {two, 1, "", true, remove, add},
		"several addresses":              {two, 1, "", false, "compare the fingerprint", remove},
		"one address and several keys":   {[]string{"192.0.2.2"}, 2, "", false, "compare the fingerprint", remove},
		"a published key":                {two, 1, "this", false, "the site publishes this key", remove},
		"a key that is not published":    {two, 1, "SHA256:other", false, "It publishes SHA256:other", "add this line"},
	} {
		t.Run(name, func(t *testing.T) {
			shown := sshtest.NewSigner(t).PublicKey()
			file := filepath.Join(t.TempDir(), "known_hosts")
			known := ""
			for range tt.known {
				known += "login " + sshtest.Authorized(sshtest.NewSigner(t).PublicKey()) + "\n"
			}
			write(t, file, known)
			o := Options{
				Settings: &sshconfig.Settings{Hostname: "login", Port: 22, UserKnownHosts: []string{file}},
				Asker:    silent{},
				Lookup:   func(context.Context, string) ([]string, error) { return tt.addresses, nil },
			}
			if tt.published != "" {
				o.Settings.PublishedHostKeys = []string{strings.Replace(tt.published, "this", ssh.FingerprintSHA256(shown), 1)}
			}
			if tt.jump {
				o.Settings.ProxyCommand = "none of the host's own"
			}
			check := func() error {
				k, err := Load(o)
				if err != nil {
					t.Fatal(err)
				}
				return k.Check(t.Context(), &net.TCPAddr{}, shown)
			}
			e, _ := errors.AsType[*api.Error](check())
			if e == nil || e.Code != api.CodeHostKey || !strings.Contains(e.Hint, tt.want) || strings.Contains(e.Hint, tt.not) {
				t.Fatalf("refused with %+v", e)
			}
			_, line, added := strings.Cut(e.Hint, fmt.Sprintf("add this line to %q: ", file))
			if !added {
				return
			}
			write(t, file, known+line+"\n")
			if err := check(); err != nil {
				t.Errorf("the line %q does not add the key: %v", line, err)
			}
		})
	}
}

// asker answers no, and keeps the question.
type asker struct {
	silent
	asked string
}

func (a *asker) Prompt(_ context.Context, p api.Prompt) (api.Answer, error) {
	a.asked = p.Text
	return api.Answer{Text: "no"}, nil
}

func TestUnknownKey(t *testing.T) {
	key := sshtest.NewSigner(t).PublicKey()
	for name, tt := range map[string]struct {
		published []string
		help      string
		page      string
		want      string
	}{
		"is compared by the user":        {nil, "https://example.org/hpc", "", "Compare it with the one that your computing centre publishes (its pages begin at https://example.org/hpc)"},
		"of a site with a page of them":  {nil, "https://example.org/hpc", "https://example.org/keys", "centre publishes (https://example.org/keys)"},
		"of an unknown site":             {nil, "", "", "your computing centre publishes. If they differ, stop"},
		"that the site publishes":        {[]string{ssh.FingerprintSHA256(key)}, "", "", "The site publishes this fingerprint. Trust it?"},
		"that the site does not publish": {[]string{"SHA256:other"}, "", "https://example.org/keys", "The site publishes others: SHA256:other. Another machine may be posing as this host, so stop, and ask the site's support (https://example.org/keys)."},
	} {
		t.Run(name, func(t *testing.T) {
			var user asker
			k, err := Load(Options{Settings: &sshconfig.Settings{Hostname: "login", Port: 22, PublishedHostKeys: tt.published, HostKeysPage: tt.page, SiteHelp: tt.help}, Asker: &user})
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Check(t.Context(), &net.TCPAddr{}, key); err == nil || !strings.Contains(user.asked, tt.want) {
				t.Errorf("%v; asked %q", err, user.asked)
			}
		})
	}
}

func TestTheAlgorithmsOfKnownKeysAreOfferedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	write(t, file, "login "+rsaKey+"\n")
	k, err := Load(Options{Settings: &sshconfig.Settings{Hostname: "login", Port: 22, UserKnownHosts: []string{file}}, Asker: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	got := k.order([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512})
	if strings.Join(got, " ") != "rsa-sha2-512 rsa-sha2-256 ssh-ed25519" {
		t.Errorf("order: %q", got)
	}
}

func TestBadLinesOfKnownHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	t.Setenv("TMPDIR", filepath.Dir(file))
	long := strings.Repeat("x", 70<<10)
	bad := []string{
		"login", "login ssh-rsa", "login ssh-rsa !!!", "login ssh-rsa AAAA", "login ssh-ed25519 " + strings.TrimPrefix(rsaKey, "ssh-rsa "),
		"@bogus login " + rsaKey, "@revoked @revoked login " + rsaKey, "a,! " + rsaKey, "[login:22 " + rsaKey, "|1|login " + rsaKey, "|1|!|! " + rsaKey,
		long, "login " + rsaKey + " " + long,
	}
	var text strings.Builder
	for i, line := range bad {
		fmt.Fprintf(&text, "host%d %s\n# a comment\n%s\n", i, rsaKey, line)
	}
	write(t, file, text.String()+"last "+rsaKey)
	k, err := readKnownHosts([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	for i := range bad {
		if want := fmt.Sprintf("%s:%d is skipped: ", file, 3*i+3); len(k.warnings) <= i || !strings.HasPrefix(k.warnings[i], want) || k.warnings[i] == want {
			t.Fatalf("warned %.2000q, want %q...", k.warnings, want)
		}
		if len(k.HostKeys(fmt.Sprintf("host%d:22", i))) != 1 {
			t.Errorf("host%d is not known", i)
		}
	}
	if len(k.warnings) != len(bad) || len(k.HostKeys("last:22")) != 1 || len(k.HostKeys("login:22")) != 0 {
		t.Errorf("warned %.2000q", k.warnings)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "known_hosts-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

const rsaKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCcrBRgHBzVPq5VIjIy8QEEMfjG0F5iYRYGtPGOdY6MhUHdFwY4E5Up4HOCeFQqeNlhqMFLnwTEpjbRlXENHkmrbAQt7qYhYmvMnIqNYNVvHEsQ5npDNdB7LaOvamQusgoIbwaoBsKBZ21rIsf6N6joEF8ZFEa7EOy0j3rbyWci6TVJv07p3KGZCkjbVK7VWhUz6IAUghemMzcA1fgVOadSqzdCtkD3X/BHXcx4qTtaWxbSuw+sEFYg8X3btW8/FlSo5Uv8zBWjxQTuBX0zHosY3U3cBmAd41Y11Qys1jr3nWOmeSA4+xYsmHElgOEXKNaLwPletWXm2aifPn1kAFFf"
