//go:build !windows

package tunnel

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/testprogram"
	"tunctl/tunnel/sshconfig"
)

// kerberos is a server that accepts Kerberos logins only, and keeps what was tried.
type kerberos struct {
	port  int
	known string // its line for known_hosts
	mu    sync.Mutex
	tried []string
}

func startKerberos(t *testing.T) *kerberos {
	t.Helper()
	k := &kerberos{}
	s := sshtest.NewServer(t, func(c *ssh.ServerConfig) {
		c.GSSAPIWithMICConfig = &ssh.GSSAPIWithMICConfig{
			AllowLogin: func(ssh.ConnMetadata, string) (*ssh.Permissions, error) { return nil, errors.New("no ticket") },
			Server:     noTickets{},
		}
		c.AuthLogCallback = func(_ ssh.ConnMetadata, method string, _ error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.tried = append(k.tried, method)
		}
	})
	k.port = s.Listen(t)
	k.known = s.Known(fmt.Sprintf("[127.0.0.1]:%d", k.port))
	return k
}

func (k *kerberos) log() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.tried, " ")
}

// noTickets is a Kerberos that nobody has a ticket for.
type noTickets struct{}

func (noTickets) AcceptSecContext([]byte) ([]byte, string, bool, error) {
	return nil, "", false, errors.New("no ticket")
}
func (noTickets) VerifyMIC([]byte, []byte) error { return errors.New("no ticket") }
func (noTickets) DeleteSecContext() error        { return nil }

// withProgram puts a program named ssh before all others in the pool's PATH.
func (l *laptop) withProgram(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := testprogram.Write(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+script)); err != nil {
		t.Fatal(err)
	}
	l.o.Envs = func() []api.Env { return []api.Env{{"PATH": dir + ":" + os.Getenv("PATH")}} }
}

func realSSH(t *testing.T) string {
	t.Helper()
	return testprogram.Need(t, "ssh")
}

// awaitHost is how the user's login to a host ends.
func (l *laptop) awaitHost(t *testing.T, name string) (*Host, error) {
	t.Helper()
	h := l.Host(name)
	h.Up()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	return h, h.Await(ctx)
}

func TestWhereOnlyKerberosIsAcceptedTheSSHProgramLogsIn(t *testing.T) {
	l := newLaptop(t)
	k, s := startKerberos(t), startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	if err := addLine(filepath.Join(l.dir, "known_hosts"), k.known); err != nil {
		t.Fatal(err)
	}
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host kerberos\n Port %d\n", k.port))
	// This ssh has a ticket: its logins end at a server that lets it in.
	l.withProgram(t, fmt.Sprintf("case \"$*\" in *-M*) exec %s -o Port=%d \"$@\";; esac\nexec %[1]s \"$@\"\n", realSSH(t), s.port))
	h, err := l.awaitHost(t, "kerberos")
	if err != nil {
		t.Fatal(err)
	}
	if st := h.Status(); st.Transport != api.TransportOpenSSH || !strings.Contains(st.TransportWhy, "Kerberos") {
		t.Errorf("status %+v", st)
	}
	h.Down()
	eventually(t, func() bool { return h.Status().State == api.HostDown })
	if _, err := l.awaitHost(t, "kerberos"); err != nil {
		t.Fatal(err)
	}
	if log := k.log(); log != "none" {
		t.Errorf("the server saw %q: one look is enough, and nothing may fail", log)
	}
}

func TestWithoutATicketOrAnSSHProgramAKerberosLoginSaysWhatToDo(t *testing.T) {
	l := newLaptop(t)
	k := startKerberos(t)
	if err := addLine(filepath.Join(l.dir, "known_hosts"), k.known); err != nil {
		t.Fatal(err)
	}
	realSSH(t)
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host kerberos\n Port %d\n", k.port))
	h, err := l.awaitHost(t, "kerberos")
	if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Hint, "kinit") {
		t.Errorf("without a ticket: %+v", err)
	}
	if log := strings.Fields(k.log()); len(log) != 2 {
		t.Errorf("the server saw %q: a look, and the ssh program's", log)
	}
	h.sshOnlyWhy = "" // another laptop's first look
	t.Setenv("PATH", t.TempDir())
	_, err = l.awaitHost(t, "kerberos")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeConfig || !strings.Contains(e.Hint, "install OpenSSH") {
		t.Errorf("without an ssh program: %+v", err)
	}
}

// writeTokenKey is a private key file as ssh-keygen -t ed25519-sk writes it.
func writeTokenKey(t *testing.T, path string) ssh.PublicKey {
	t.Helper()
	raw, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	blob := ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, raw, "ssh:"})
	file := ssh.Marshal(struct {
		Cipher, KDF, Options string
		Count                uint32
		Public, Private      []byte
	}{"none", "none", "", 1, blob, []byte("a handle that only the token reads")})
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), file...)})))
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestTheSSHProgramLogsInWithKeysThatWeCannotUse(t *testing.T) {
	l := newLaptop(t)
	token := filepath.Join(l.dir, "token")
	public := writeTokenKey(t, token)
	withAgent := sshtest.ServeAgent(t, tokenAgent{public: public})
	for _, x := range []struct {
		name string
		set  func(*sshconfig.Settings)
		why  string
	}{
		{"a plain key", func(*sshconfig.Settings) {}, ""},
		{"a PKCS#11 provider", func(s *sshconfig.Settings) { s.PKCS11Provider = "/usr/lib/opensc.so" }, "PKCS11Provider"},
		{"a token's key", func(s *sshconfig.Settings) { s.IdentityFiles, s.OwnIdentities = []string{token}, true }, token},
		{"a token's key beside another that is named too", func(s *sshconfig.Settings) {
			s.IdentityFiles, s.OwnIdentities = append(s.IdentityFiles, token), true
		}, token},
		{"a token's key of a default name beside another", func(s *sshconfig.Settings) {
			s.IdentityFiles, s.OwnIdentities = append(s.IdentityFiles, token), false
		}, ""},
		{"a token's key of a default name alone", func(s *sshconfig.Settings) { s.IdentityFiles, s.OwnIdentities = []string{token}, false }, token},
		{"a token's key in the agent", func(s *sshconfig.Settings) {
			s.IdentityFiles, s.OwnIdentities, s.IdentityAgent = []string{token}, true, withAgent
		}, ""},
		{"keys are not used", func(s *sshconfig.Settings) {
			s.IdentityFiles, s.OwnIdentities, s.PubkeyAuthentication = []string{token}, true, false
		}, ""},
		{"the config says native", func(s *sshconfig.Settings) { s.PKCS11Provider, s.Transport = "x", api.TransportNative }, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			realSSH(t)
			p := newPool(Options{Limits: PracticeLimits()})
			a := newAttempt(p.Host("x"))
			a.settings = sshconfig.Settings{IdentityFiles: []string{filepath.Join(l.dir, "id")}, IdentityAgent: "none", PubkeyAuthentication: true}
			x.set(&a.settings)
			if got := a.usesSSHProgram(t.Context()); got != (x.why != "") || !strings.Contains(a.whySSH, x.why) {
				t.Errorf("%v: %q", got, a.whySSH)
			}
			t.Setenv("PATH", t.TempDir())
			if a.usesSSHProgram(t.Context()) {
				t.Error("without an ssh program too")
			}
			if w := p.Host("x").Status().Warnings; (len(w) > 0) != (x.why != "") {
				t.Errorf("without an ssh program: warnings %q", w)
			}
		})
	}
}

// tokenAgent is an ssh-agent that holds a key on a token.
type tokenAgent struct {
	agent.Agent
	public ssh.PublicKey
}

func (a tokenAgent) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: a.public.Type(), Blob: a.public.Marshal()}}, nil
}
