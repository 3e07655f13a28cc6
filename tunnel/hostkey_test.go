package tunnel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// certifiedServer is a server that shows its key inside a certificate, and only so.
func certifiedServer(t testing.TB, ca ssh.Signer, set func(*ssh.Certificate)) *sshtest.Server {
	t.Helper()
	key := sshtest.NewSigner(t)
	signer, err := ssh.NewCertSigner(sshtest.Certify(t, ca, key.PublicKey(), set), key)
	if err != nil {
		t.Fatal(err)
	}
	s := sshtest.NewServerWithKey(t, signer, sshtest.AcceptAnybody)
	s.Key = key
	return s
}

// outcome is what becomes of a host key.
type outcome string

const (
	accepted outcome = "accepted"
	refused  outcome = "refused"
	isNew    outcome = "new" // as the mode says: refused, asked about, or accepted and added
)

// in says what the outcome is in one mode of StrictHostKeyChecking.
func (v outcome) in(mode string) (in, asked, added bool) {
	if v != isNew {
		return v == accepted, false, false
	}
	return mode == "no" || mode == "accept-new", mode == "ask", mode == "no" || mode == "accept-new"
}

var strictModes = []string{"yes", "ask", "accept-new", "no"}

// certificateCases are known_hosts for a server, called name there, with a certificate of
// ca for key.
var certificateCases = map[string]struct {
	known func(name string, key, ca, other string) string
	want  outcome
}{
	"unknown authority, unknown key": {func(string, string, string, string) string { return "" }, isNew},
	"unknown authority, known key":   {func(name, key, _, _ string) string { return name + " " + key }, accepted},
	"unknown authority, changed key": {func(name, _, _, other string) string { return name + " " + other }, refused},
	"unknown authority, revoked key": {func(_, key, _, _ string) string { return "@revoked * " + key }, refused},
	"unknown authority, known and revoked key": {
		func(name, key, _, _ string) string { return name + " " + key + "\n@revoked * " + key }, refused,
	},
	"unknown authority among others": {func(name, _, _, other string) string { return "@cert-authority " + name + " " + other }, isNew},
	"authority of another host":      {func(_, _, ca, _ string) string { return "@cert-authority elsewhere " + ca }, isNew},
	"revoked authority":              {func(_, _, ca, _ string) string { return "@revoked * " + ca }, refused},
	"known and revoked authority": {
		func(name, _, ca, _ string) string { return "@cert-authority " + name + " " + ca + "\n@revoked * " + ca }, refused,
	},
	"known authority": {func(name, _, ca, _ string) string { return "@cert-authority " + name + " " + ca }, accepted},
	"known authority, changed key": {func(name, _, ca, other string) string {
		return name + " " + other + "\n@cert-authority " + name + " " + ca
	}, accepted},
	"known authority, revoked key": {
		func(name, key, ca, _ string) string {
			return "@cert-authority " + name + " " + ca + "\n@revoked * " + key
		}, refused,
	},
}

func TestHostCertificate(t *testing.T) {
	t.Run("of an unknown authority counts for its key only", func(t *testing.T) {
		for name, test := range certificateCases {
			for _, mode := range strictModes {
				t.Run(name+"/"+mode, simulated(func(t *testing.T) {
					ca, other := sshtest.NewSigner(t), sshtest.NewSigner(t).PublicKey()
					s := certifiedServer(t, ca, nil)
					known := test.known("login", sshtest.Authorized(s.Key.PublicKey()), sshtest.Authorized(ca.PublicKey()), sshtest.Authorized(other)) + "\n"
					b, text, err := connectWith(t, known, s, func(s *sshconfig.Settings) { s.StrictHostKeyChecking = mode })
					in, asked, added := test.want.in(mode)
					if in != (err == nil) || asked != (len(b.person.questions()) > 0) || added != (text != known) {
						t.Errorf("connected: %v (%v), asked %d times, known_hosts was %q and is %q", err == nil, err, len(b.person.questions()), known, text)
					}
					if added && !strings.Contains(text, "login "+sshtest.Authorized(s.Key.PublicKey())) {
						t.Errorf("added is no plain key: %q", text)
					}
					if !in && !asked && codeOf(err) != api.CodeHostKey {
						t.Errorf("refused with %v", err)
					}
				}))
			}
		}
	})
	t.Run("that is not good leaves its known key", func(t *testing.T) {
		for name, flaw := range map[string]func(*ssh.Certificate){
			"expired":                func(c *ssh.Certificate) { c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix()) },
			"of another host":        func(c *ssh.Certificate) { c.ValidPrincipals = []string{"elsewhere"} },
			"a user's":               func(c *ssh.Certificate) { c.CertType = ssh.UserCert },
			"with an unknown option": func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"new": ""} },
		} {
			t.Run(name, simulated(func(t *testing.T) {
				ca := sshtest.NewSigner(t)
				s := certifiedServer(t, ca, flaw)
				authority := "@cert-authority login " + sshtest.Authorized(ca.PublicKey()) + "\n"
				if _, _, err := connectWith(t, authority+s.Known("login"), s, nil); err != nil {
					t.Errorf("its key is known: %v", err)
				}
				if _, _, err := connectWith(t, authority+"login "+sshtest.Authorized(sshtest.NewSigner(t).PublicKey())+"\n", s, nil); err == nil || !strings.Contains(err.Error(), "has changed") {
					t.Errorf("its key has changed: %v", err)
				}
				if _, _, err := connectWith(t, authority, s, func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "accept-new" }); codeOf(err) != api.CodeHostKey || !strings.Contains(err.Error(), "not valid") {
					t.Errorf("its key is unknown: %v", err)
				}
			}))
		}
	})
	t.Run("an authority's own key is no host key", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptAnybody)
		_, _, err := connectWith(t, "@cert-authority login "+sshtest.Authorized(s.Key.PublicKey())+"\n", s, func(s *sshconfig.Settings) { s.StrictHostKeyChecking = "yes" })
		if codeOf(err) != api.CodeHostKey {
			t.Errorf("Await: %v", err)
		}
	}))
	t.Run("the question about a new host speaks of no other keys", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptAnybody)
		b, _, err := connectWith(t, "elsewhere "+rsaKey+"\n@cert-authority login "+rsaKey+"\n", s, nil, "yes")
		if q := b.person.questions(); err != nil || len(q) != 1 || strings.Contains(q[0].Text, "other types") {
			t.Errorf("%v, asked %+v", err, q)
		}
	}))
	t.Run("an authority signs by CASignatureAlgorithms only", func(t *testing.T) {
		long := sshtest.RSASigner(t)
		for name, test := range map[string]struct {
			ca   ssh.Signer
			list []string
			good bool
		}{
			"ed25519, by default":      {sshtest.NewSigner(t), nil, true},
			"SHA-1, by default":        {sha1Signer{long}, nil, false},
			"SHA-1, wanted":            {sha1Signer{long}, []string{"ssh-ed25519", "ssh-rsa"}, true},
			"ed25519, not in the list": {sshtest.NewSigner(t), []string{"rsa-sha2-512"}, false},
			"by a wildcard":            {sshtest.NewSigner(t), []string{"ssh-*"}, true},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				s := certifiedServer(t, test.ca, nil)
				_, _, err := connectWith(t, "@cert-authority login "+sshtest.Authorized(test.ca.PublicKey())+"\n", s, func(s *sshconfig.Settings) { s.CASignatureAlgorithms = test.list })
				if test.good != (err == nil) || !test.good && !strings.Contains(err.Error(), "CASignatureAlgorithms") {
					t.Errorf("Await: %v", err)
				}
			}))
		}
	})
	t.Run("a short host key is refused", func(t *testing.T) {
		key := sshtest.RSASigner(t)
		for size, good := range map[int]bool{1024: true, 2048: true, 3072: false} {
			synctest.Test(t, func(t *testing.T) {
				s := sshtest.NewServerWithKey(t, key, sshtest.AcceptAnybody)
				_, _, err := connectWith(t, "login "+sshtest.Authorized(key.PublicKey())+"\n", s, func(s *sshconfig.Settings) { s.RequiredRSASize = size })
				if good != (err == nil) || !good && (codeOf(err) != api.CodeHostKey || !strings.Contains(err.Error(), "2048 bits")) {
					t.Errorf("RequiredRSASize %d: %v", size, err)
				}
			})
		}
	})
	t.Run("a key in RevokedHostKeys is not accepted", func(t *testing.T) {
		for name, test := range map[string]struct {
			file func(t *testing.T, path string, key ssh.PublicKey)
			says string
		}{
			"revoked":       {func(t *testing.T, path string, key ssh.PublicKey) { write(t, path, sshtest.Authorized(key)+"\n") }, "is revoked by"},
			"missing":       {func(*testing.T, string, ssh.PublicKey) {}, "cannot be read"},
			"malformed":     {func(t *testing.T, path string, _ ssh.PublicKey) { write(t, path, "ssh-ed25519 !!!\n") }, "line 1"},
			"a cut-off KRL": {func(t *testing.T, path string, _ ssh.PublicKey) { write(t, path, "SSHKRL\n\x00"+"\x00\x00") }, "ssh-keygen: "},
			"a newer KRL":   {func(t *testing.T, path string, _ ssh.PublicKey) { write(t, path, "SSHKRL\n\x00"+"\x00\x00\x00\x02") }, "ssh-keygen: "},
		} {
			for _, mode := range strictModes {
				t.Run(name+"/"+mode, simulated(func(t *testing.T) {
					s := sshtest.NewServer(t, sshtest.AcceptAnybody)
					path := filepath.Join(t.TempDir(), "revoked")
					test.file(t, path, s.Key.PublicKey())
					known := s.Known("login")
					b, _, err := connectWith(t, known, s, func(s *sshconfig.Settings) { s.RevokedHostKeys, s.StrictHostKeyChecking = path, mode }, "yes")
					if codeOf(err) != api.CodeHostKey || !strings.Contains(err.Error(), test.says) || len(b.person.questions()) > 0 {
						t.Errorf("Await: %v", err)
					}
				}))
			}
		}
	})
}

// sha1Signer signs as authorities did before SHA-1 was broken.
type sha1Signer struct{ ssh.AlgorithmSigner }

func (s sha1Signer) Algorithms() []string { return []string{ssh.KeyAlgoRSA} }
