package tunnel

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

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
			"a cut-off KRL": {func(t *testing.T, path string, _ ssh.PublicKey) { write(t, path, "SSHKRL\n\x00"+"\x00\x00") }, "truncated"},
			"a newer KRL":   {func(t *testing.T, path string, _ ssh.PublicKey) { write(t, path, "SSHKRL\n\x00"+"\x00\x00\x00\x02") }, "format 2"},
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
