//go:build !windows

package tunnel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// certify has sshd show its host key inside a certificate of ca, and only so. It does not
// mind clients that leave before they log in, as those that refuse its key do.
func (s *realServer) certify(ca ssh.Signer) {
	s.t.Helper()
	s.stop()
	cert, path := filepath.Join(s.dir, "hostkey-cert.pub"), filepath.Join(s.dir, "sshd_config")
	write(s.t, cert, sshtest.Authorized(sshtest.Certify(s.t, ca, s.key, nil))+"\n")
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	config := string(text) + "HostCertificate " + cert + "\nHostKeyAlgorithms " + ssh.CertAlgoED25519v01 + "\nMaxStartups 500\n"
	write(s.t, path, config+"PerSourcePenalties no\n")
	if exec.CommandContext(s.t.Context(), s.cmd.Path, "-t", "-f", path).Run() != nil {
		write(s.t, path, config) // before OpenSSH 9.8
	}
	s.start(s.cmd.Path)
}

// sshLogsIn reports whether the ssh program logs in by the laptop's config.
func (l *laptop) sshLogsIn(t testing.TB, name string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ssh", "-F", filepath.Join(l.dir, "config"), "-o", "BatchMode=yes", name, "echo", "logged", "in")
	out, err := cmd.CombinedOutput()
	in := strings.Contains(string(out), "logged in")
	if in != (err == nil) {
		t.Fatalf("ssh: %v: %s", err, out)
	}
	return in
}

// judgeHostKey connects to a real server with this known_hosts, by ssh and by ourselves. Where
// nothing may ask, both must come to the same outcome; but with StrictHostKeyChecking no,
// ssh goes on without passwords where we refuse.
func judgeHostKey(t *testing.T, s *realServer, key, mode, known, extra string, want outcome) {
	t.Helper()
	t.Parallel()
	l := &laptop{person: &person{}, dir: t.TempDir()}
	file := filepath.Join(l.dir, "known_hosts")
	write(t, file, known)
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host login\n Port %d\n StrictHostKeyChecking %s\n IdentityFile %s\n%s", s.port, mode, key, extra))
	in, asked, added := want.in(mode)
	if theirs := l.sshLogsIn(t, "login"); theirs != in && (in || mode != "no") {
		t.Errorf("ssh logs in: %v", theirs)
	}
	write(t, file, known) // as it was before ssh
	h := l.Host("login")
	h.Up()
	err := h.Await(t.Context())
	text, _ := os.ReadFile(file)
	if in != (err == nil) || asked != (len(l.person.questions()) > 0) || added != (string(text) != known) {
		t.Errorf("connected: %v (%v), asked %d times, known_hosts was %q and is %q", err == nil, err, len(l.person.questions()), known, text)
	}
	if !in && !asked && codeOf(err) != api.CodeHostKey {
		t.Errorf("refused with %v", err)
	}
}

func TestOpenSSHCertificatesCountAsTheSSHProgramHasIt(t *testing.T) {
	ca, other := sshtest.NewSigner(t), sshtest.NewSigner(t).PublicKey()
	key, public := sshtest.NewKeyFile(t)
	s := startSSHD(t, sshtest.Authorized(public)+"\n")
	s.certify(ca)
	named := fmt.Sprintf("[127.0.0.1]:%d", s.port)
	for name, test := range certificateCases {
		for _, mode := range strictModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				known := test.known(named, sshtest.Authorized(s.key), sshtest.Authorized(ca.PublicKey()), sshtest.Authorized(other)) + "\n"
				judgeHostKey(t, s, key, mode, known, "", test.want)
			})
		}
	}
	for _, mode := range strictModes {
		t.Run("key of the default port/"+mode, func(t *testing.T) {
			judgeHostKey(t, s, key, mode, "127.0.0.1 "+sshtest.Authorized(s.key)+"\n", "", accepted)
		})
		t.Run("authority of the default port/"+mode, func(t *testing.T) {
			judgeHostKey(t, s, key, mode, "@cert-authority 127.0.0.1 "+sshtest.Authorized(ca.PublicKey())+"\n", "", accepted)
		})
		t.Run("another key of the default port/"+mode, func(t *testing.T) {
			judgeHostKey(t, s, key, mode, "127.0.0.1 "+sshtest.Authorized(other)+"\n", "", isNew)
		})
	}
}

func TestOpenSSHSettingsOfHostKeysAreHonoured(t *testing.T) {
	ca, other := sshtest.NewSigner(t), sshtest.NewSigner(t).PublicKey()
	key, public := sshtest.NewKeyFile(t)
	s := startSSHD(t, sshtest.Authorized(public)+"\n")
	s.certify(ca)
	named := fmt.Sprintf("[127.0.0.1]:%d", s.port)
	known, trusted := named+" "+sshtest.Authorized(s.key)+"\n", "@cert-authority "+named+" "+sshtest.Authorized(ca.PublicKey())+"\n"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	krl := filepath.Join(dir, "krl")
	sshtest.MakeKRL(t, krl, sshtest.Authorized(s.key)+"\n", ca.PublicKey())
	for name, test := range map[string]struct {
		known, extra string
		want         outcome
	}{
		"revoked by a list":         {known, " RevokedHostKeys " + file("list", sshtest.Authorized(s.key)+"\n"), refused},
		"revoked with the CA":       {trusted, " RevokedHostKeys " + file("ca", sshtest.Authorized(ca.PublicKey())+"\n"), refused},
		"revoked by a KRL":          {known, " RevokedHostKeys " + krl, refused},
		"others are revoked":        {known, " RevokedHostKeys " + file("others", sshtest.Authorized(other)+"\n"), accepted},
		"the list is missing":       {known, " RevokedHostKeys " + filepath.Join(dir, "nothing"), refused},
		"no revoked keys":           {known, " RevokedHostKeys none", accepted},
		"a CA that signs so":        {trusted, " CASignatureAlgorithms ssh-ed25519", accepted},
		"a CA that may not sign so": {known, " CASignatureAlgorithms rsa-sha2-512", accepted}, // the plain key counts
	} {
		for _, mode := range []string{"yes", "accept-new"} {
			t.Run(name+"/"+mode, func(t *testing.T) { judgeHostKey(t, s, key, mode, test.known, test.extra+"\n", test.want) })
		}
	}
}

func TestOpenSSHKeysThatCannotSignArePassedOver(t *testing.T) {
	l := newLaptop(t)
	ring, refusing := sshtest.NewKeyring(t)
	socket := sshtest.ServeAgent(t, refusingAgent{ring})
	s := startSSHD(t, sshtest.Authorized(refusing)+"\n"+sshtest.Authorized(l.key)+"\n")
	l.know(t, s)
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host login\n Port %d\n IdentityAgent %s\n", s.port, socket))
	if !l.sshLogsIn(t, "login") {
		t.Error("ssh does not go on to the next key")
	}
	l.up(t, "login")
}

func TestOpenSSHOwnKeysFollowTheSettings(t *testing.T) {
	file, public := sshtest.RSAKeyFile(t)
	s := startSSHD(t, sshtest.Authorized(public)+"\n")
	for setting, in := range map[string]bool{
		"RequiredRSASize 2048":                              true,
		"RequiredRSASize 3072":                              false,
		"PubkeyAcceptedAlgorithms ssh-ed25519":              false,
		"PubkeyAcceptedAlgorithms -rsa-sha2-512":            true,
		"PubkeyAcceptedAlgorithms ssh-ed25519,rsa-sha2-256": true,
	} {
		t.Run(setting, func(t *testing.T) {
			l := newLaptop(t)
			l.know(t, s)
			l.serve(t, DefaultLimits(), fmt.Sprintf("Host login\n Port %d\n IdentityFile %s\n %s\n", s.port, file, setting))
			if theirs := l.sshLogsIn(t, "login"); theirs != in {
				t.Errorf("ssh logs in: %v", theirs)
			}
			h := l.Host("login")
			h.Up()
			if err := h.Await(t.Context()); in != (err == nil) {
				t.Errorf("Await: %v", err)
			}
		})
	}
}
