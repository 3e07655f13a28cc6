package tunnel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// connectWith connects to a server whose known_hosts has the given text.
func connectWith(t *testing.T, known string, server *sshtest.Server, set func(*sshconfig.Settings), answers ...string) (*bench, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known_hosts")
	if known != "" {
		if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, _, err := logIn(t, server, func(s *sshconfig.Settings) {
		s.UserKnownHosts = []string{file}
		if set != nil {
			set(s)
		}
	}, answers...)
	text, _ := os.ReadFile(file)
	return b, string(text), err
}

func TestHostKey(t *testing.T) {
	t.Run("is checked as OpenSSH does", func(t *testing.T) {
		other := sshtest.NewSigner(t).PublicKey()
		for name, test := range map[string]struct {
			known   func(key ssh.PublicKey) string
			set     func(*sshconfig.Settings)
			answers []string
			code    api.Code
			says    string // in the error
			asked   int
			added   string // a prefix of a line added
		}{
			"known":    {known: func(k ssh.PublicKey) string { return "login " + sshtest.Authorized(k) }},
			"hashed":   {known: func(k ssh.PublicKey) string { return xknownhosts.HashHostname("login") + " " + sshtest.Authorized(k) }},
			"wildcard": {known: func(k ssh.PublicKey) string { return "log* " + sshtest.Authorized(k) }},
			"one of several": {known: func(k ssh.PublicKey) string {
				return "login " + sshtest.Authorized(other) + "\nlogin " + sshtest.Authorized(k)
			}},
			"after a malformed line":     {known: func(k ssh.PublicKey) string { return "login ssh-rsa !!!\n@bogus x y z\nlogin " + sshtest.Authorized(k) }},
			"known for the default port": {known: func(k ssh.PublicKey) string { return "login " + sshtest.Authorized(k) }, set: func(s *sshconfig.Settings) { s.Port = 2222 }},
			"by its port":                {known: func(k ssh.PublicKey) string { return "[login]:2222 " + sshtest.Authorized(k) }, set: func(s *sshconfig.Settings) { s.Port = 2222 }},
			"by an alias":                {known: func(k ssh.PublicKey) string { return "cluster " + sshtest.Authorized(k) }, set: func(s *sshconfig.Settings) { s.HostKeyAlias, s.Port = "cluster", 2222 }},
			"unknown, trusted":           {answers: []string{"yes"}, asked: 1, added: "login ssh-ed25519 "},
			"unknown on a port, trusted": {answers: []string{"yes"}, asked: 1, added: "[login]:2222 ssh-ed25519 ", set: func(s *sshconfig.Settings) { s.Port = 2222 }},
			"unknown, hashed":            {answers: []string{"yes"}, asked: 1, added: "|1|", set: func(s *sshconfig.Settings) { s.HashKnownHosts = true }},
			"unknown, not trusted":       {answers: []string{"no"}, asked: 1, code: api.CodeNeedsPerson, says: "you did not accept the host key"},
			"unknown, nobody there":      {asked: 1, code: api.CodeNeedsPerson, says: "SHA256:"},
			"unknown, strict":            {set: func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "yes" }, code: api.CodeHostKey, says: "StrictHostKeyChecking"},
			"unknown, accept-new":        {set: func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "accept-new" }, added: "login ssh-ed25519 "},
			"changed":                    {known: func(ssh.PublicKey) string { return "\nlogin " + sshtest.Authorized(other) }, code: api.CodeHostKey, says: "known_hosts:2"},
			"changed, accept-new": {
				known: func(ssh.PublicKey) string { return "login " + sshtest.Authorized(other) }, code: api.CodeHostKey, says: ssh.FingerprintSHA256(other),
				set: func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "accept-new" },
			},
			"revoked": {known: func(k ssh.PublicKey) string {
				return "login " + sshtest.Authorized(k) + "\n@revoked * " + sshtest.Authorized(k)
			}, code: api.CodeHostKey, says: "revoked"},
			"an authority is no plain host key": {known: func(ssh.PublicKey) string { return "@cert-authority * " + sshtest.Authorized(other) }, answers: []string{"yes"}, asked: 1, added: "@cert-authority"},
			"another type is only new":          {known: func(ssh.PublicKey) string { return "login " + rsaKey }, answers: []string{"yes"}, asked: 1, added: "login ssh-rsa"},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				s := sshtest.NewServer(t, sshtest.AcceptAnybody)
				known := ""
				if test.known != nil {
					known = test.known(s.Key.PublicKey())
				}
				b, text, err := connectWith(t, known, s, test.set, test.answers...)
				if codeOf(err) != test.code || test.code != "" && !strings.Contains(err.Error(), test.says) {
					t.Errorf("Await: %v", err)
				}
				asked := b.person.questions()
				if len(asked) != test.asked {
					t.Errorf("asked %+v", asked)
				}
				for _, q := range asked {
					if q.Kind != api.PromptHostKey || q.Fingerprint != ssh.FingerprintSHA256(s.Key.PublicKey()) {
						t.Errorf("asked %+v", q)
					}
				}
				if test.added == "" && text != known || !strings.HasPrefix(text, test.added) {
					t.Errorf("known_hosts is now %q", text)
				}
				if test.added != "" {
					b.Host("login").Down()
					b.Host("login").Up()
					if err := b.Host("login").Await(t.Context()); err != nil || len(b.person.questions()) != test.asked {
						t.Errorf("the added key is not known: %v", err)
					}
				}
			}))
		}
	})
	t.Run("a known_hosts file that cannot be read knows no host", func(t *testing.T) {
		unreadable := t.TempDir() // a folder, which root cannot read as a file either
		known := filepath.Join(t.TempDir(), "known_hosts")
		for name, tt := range map[string]struct {
			set     func(*sshconfig.Settings)
			answers []string
			asked   int
			code    api.Code
		}{
			"another file knows it":  {set: func(s *sshconfig.Settings) { s.GlobalKnownHosts = []string{known} }},
			"no other file knows it": {answers: []string{"yes"}, asked: 1},
			"strict checking":        {set: func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "yes" }, code: api.CodeHostKey},
			"revoked keys":           {set: func(s *sshconfig.Settings) { s.GlobalKnownHosts, s.RevokedHostKeys = []string{known}, unreadable }, code: api.CodeHostKey},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				server := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
				write(t, known, server.Known("login"))
				b, h, err := logIn(t, server, func(s *sshconfig.Settings) {
					s.UserKnownHosts = []string{unreadable}
					if tt.set != nil {
						tt.set(s)
					}
				}, append(tt.answers, "right")...)
				asked := slices.DeleteFunc(b.person.questions(), func(p api.Prompt) bool { return p.Kind != api.PromptHostKey })
				if codeOf(err) != tt.code || len(asked) != tt.asked || !strings.Contains(strings.Join(h.Status().Warnings, "\n"), unreadable) {
					t.Errorf("%v, asked %+v, warned %q", err, asked, h.Status().Warnings)
				}
			}))
		}
	})
	t.Run("of another type is a changed one only where the known one was asked for", func(t *testing.T) {
		const known = "login " + rsaKey + "\n"
		for name, test := range map[string]struct {
			algorithms []string // nil: all
			mode       string
			code       api.Code
			says       string // in the error, or in the question
		}{
			"asked for, accept-new":     {mode: "accept-new", code: api.CodeHostKey, says: "has changed"},
			"asked for, no":             {mode: "no", code: api.CodeHostKey, says: "has changed"},
			"asked for, ask":            {mode: "ask", says: "the server offers none of them: RSA SHA256:"},
			"not asked for, accept-new": {algorithms: []string{ssh.KeyAlgoED25519}, mode: "accept-new"},
			"not asked for, no":         {algorithms: []string{ssh.KeyAlgoED25519}, mode: "no"},
			"not asked for, ask":        {algorithms: []string{ssh.KeyAlgoED25519}, mode: "ask", says: "your ssh settings do not accept: RSA SHA256:"},
			"not asked for, yes":        {algorithms: []string{ssh.KeyAlgoED25519}, mode: "yes", code: api.CodeHostKey, says: "is unknown"},
			"as a newer RSA, no":        {algorithms: []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512}, mode: "no", code: api.CodeHostKey, says: "has changed"},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				s := sshtest.NewServer(t, sshtest.AcceptAnybody)
				b, text, err := connectWith(t, known, s, func(s *sshconfig.Settings) {
					s.StrictHostKeyChecking, s.HostKeyAlgorithms = test.mode, test.algorithms
				}, "yes")
				said := fmt.Sprint(err)
				for _, q := range b.person.questions() {
					said += q.Text
				}
				if codeOf(err) != test.code || !strings.Contains(said, test.says) {
					t.Errorf("%v; it said %q", err, said)
				}
				if added := text != known; added != (test.code == "") {
					t.Errorf("known_hosts is now %q", text)
				}
			}))
		}
	})
	t.Run("holds through later key exchanges", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptAnybody)
		s.Config.RekeyThreshold = 64 << 10
		b, _, err := connectWith(t, "", s, nil, "yes")
		if err != nil {
			t.Fatal(err)
		}
		h := b.Host("login")
		data := make([]byte, 1<<20)
		if r, err := h.Run(t.Context(), "cat", data); err != nil || len(r.Stdout) != len(data) {
			t.Errorf("%d bytes, %v", len(r.Stdout), err)
		}
		if q := b.person.questions(); len(q) != 1 {
			t.Errorf("asked %+v", q)
		}
	}))
}

// rsaKey is a key of a type that the test servers do not have.
const rsaKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQCcrBRgHBzVPq5VIjIy8QEEMfjG0F5iYRYGtPGOdY6MhUHdFwY4E5Up4HOCeFQqeNlhqMFLnwTEpjbRlXENHkmrbAQt7qYhYmvMnIqNYNVvHEsQ5npDNdB7LaOvamQusgoIbwaoBsKBZ21rIsf6N6joEF8ZFEa7EOy0j3rbyWci6TVJv07p3KGZCkjbVK7VWhUz6IAUghemMzcA1fgVOadSqzdCtkD3X/BHXcx4qTtaWxbSuw+sEFYg8X3btW8/FlSo5Uv8zBWjxQTuBX0zHosY3U3cBmAd41Y11Qys1jr3nWOmeSA4+xYsmHElgOEXKNaLwPletWXm2aifPn1kAFFf"
