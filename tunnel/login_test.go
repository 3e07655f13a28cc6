package tunnel

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// logIn is a bench with one host "login", up and awaited.
func logIn(t *testing.T, s *sshtest.Server, set func(*sshconfig.Settings), answers ...string) (*bench, *Host, error) {
	t.Helper()
	b := newBench(t, s, set)
	b.person.answers = answers
	h := b.begin(t, "login")
	return b, h, h.Await(t.Context())
}

// byPassword is a host that was logged in to by a password, which only the user has.
func byPassword(t *testing.T) (*bench, *sshtest.Server, *Host) {
	t.Helper()
	s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
	b, h, err := logIn(t, s, nil, "right")
	if err != nil {
		t.Fatal(err)
	}
	return b, s, h
}

func TestLogin(t *testing.T) {
	t.Run("a password may be mistyped twice", simulated(func(t *testing.T) {
		b, h, err := logIn(t, sshtest.NewServer(t, sshtest.AcceptPassword("right")), nil, "wrong", "wrong", "right")
		if err != nil {
			t.Fatal(err)
		}
		if h.Status().Auth != "password" || b.memory.Known("login").Silent {
			t.Errorf("status %+v, silent %v", h.Status(), b.memory.Known("login").Silent)
		}
		for _, q := range b.person.questions() {
			if q.Kind != api.PromptPassword || q.Echo {
				t.Errorf("asked %+v", q)
			}
		}
	}))
	t.Run("asks as often as the settings say", func(t *testing.T) {
		for prompts, want := range map[int]int{0: 1, 1: 1, 2: 2, 5: 5} { // ssh refuses 0
			synctest.Test(t, func(t *testing.T) {
				s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
				b, _, err := logIn(t, s, func(s *sshconfig.Settings) { s.NumberOfPasswordPrompts = prompts }, "1", "2", "3", "4", "5", "6")
				if asked := len(b.person.questions()); asked != want || codeOf(err) != api.CodeAuth {
					t.Errorf("NumberOfPasswordPrompts %d: asked %d times, %v", prompts, asked, err)
				}
			})
		}
	})
	t.Run("that is refused says what was tried and stops", simulated(func(t *testing.T) {
		path, _ := sshtest.NewKeyFile(t)
		s := sshtest.NewServer(t, sshtest.AcceptKey(), sshtest.AcceptPassword("right"))
		_, h, err := logIn(t, s, withKeys(path), "a", "b", "c", "d")
		if codeOf(err) != api.CodeAuth {
			t.Fatalf("Await: %v", err)
		}
		for _, want := range []string{"no key was accepted (ED25519 SHA256:", "; the password or code was not accepted", "login:22"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		time.Sleep(24 * time.Hour)
		if logins := s.Logins(); logins != 1 || h.Status().State != api.HostBlocked {
			t.Errorf("%d logins, %+v", logins, h.Status())
		}
	}))
	t.Run("a user's silence ends in needs-login", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
		b := newBench(t, s, nil)
		b.person.hang = true
		h := b.begin(t, "login")
		start := time.Now()
		err := h.Await(t.Context())
		if codeOf(err) != api.CodeNeedsPerson || h.Status().State != api.HostNeedsLogin {
			t.Errorf("Await: %v, %+v", err, h.Status())
		}
		if took := time.Since(start).Round(time.Second); took != 2*time.Minute {
			t.Errorf("after %v", took)
		}
	}))
	t.Run("nobody there is needs-login", simulated(func(t *testing.T) {
		_, h, err := logIn(t, sshtest.NewServer(t, sshtest.AcceptPassword("right")), nil)
		if codeOf(err) != api.CodeNeedsPerson || !errors.Is(err, failure.ErrNobody) || h.Status().State != api.HostNeedsLogin {
			t.Errorf("Await: %v, %+v", err, h.Status())
		}
	}))
	t.Run("a passphrase is asked once and only for a key that the host wants", simulated(func(t *testing.T) {
		path, public := lockedKey(t, "locked")
		unwanted, _ := lockedKey(t, "locked2")
		s := sshtest.NewServer(t, sshtest.AcceptKey(public))
		b, h, err := logIn(t, s, withKeys(unwanted, path), "wrong", "open sesame")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s.Drop()
		synctest.Wait()
		mustConnect(t, h)
		q := b.person.questions()
		if len(q) != 2 {
			t.Fatalf("asked %+v", q)
		}
		for _, q := range q {
			if q.Kind != api.PromptPassphrase || !strings.Contains(q.Text, path) {
				t.Errorf("asked %+v", q)
			}
		}
	}))
	t.Run("a PuTTY key is told how to convert", simulated(func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "id.ppk")
		write(t, path, "PuTTY-User-Key-File-3: ssh-ed25519\r\n")
		_, h, err := logIn(t, sshtest.NewServer(t, sshtest.AcceptKey()), withKeys(path))
		told := strings.Join(h.Status().Warnings, "\n")
		if err == nil || !strings.Contains(told, `puttygen "`+path+`" -O private-openssh -o "`+strings.TrimSuffix(path, ".ppk")+`"`) {
			t.Errorf("told %q, %v", told, err)
		}
	}))
	t.Run("a certificate goes first", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		ca := sshtest.NewSigner(t)
		sshtest.WriteCertificate(t, path+"-cert.pub", ca, public, time.Hour)
		s := sshtest.NewServer(t, sshtest.AcceptCertificates(ca.PublicKey()))
		if _, _, err := logIn(t, s, func(s *sshconfig.Settings) { s.User, s.IdentityFiles = "alice", []string{path} }); err != nil {
			t.Fatal(err)
		}
	}))
	t.Run("an expired certificate is named", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		sshtest.WriteCertificate(t, path+"-cert.pub", sshtest.NewSigner(t), public, time.Hour)
		time.Sleep(2 * time.Hour)
		_, h, err := logIn(t, sshtest.NewServer(t, sshtest.AcceptKey(public)), withKeys(path))
		if err != nil {
			t.Fatal(err)
		}
		if w := h.Status().Warnings; len(w) != 1 || !strings.Contains(w[0], "expired at") {
			t.Errorf("warnings %q", w)
		}
	}))
	t.Run("the ssh-agent is dialled anew and its keys are used", func(t *testing.T) {
		if os.Getenv("OS") == "Windows_NT" {
			t.Skip("needs unix sockets")
		}
		ring, public := sshtest.NewKeyring(t)
		first := sshtest.ServeAgent(t, ring)
		s := sshtest.NewServer(t, sshtest.AcceptKey(public))
		b := newBench(t, s, func(s *sshconfig.Settings) { s.IdentityAgent = "" })
		socket := first
		b.o.Envs = func() []api.Env { return []api.Env{{"SSH_AUTH_SOCK": socket}} }
		h := b.begin(t, "login")
		if err := h.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Down()
		second := sshtest.ServeAgent(t, ring)
		if err := os.Remove(first); err != nil {
			t.Fatal(err)
		}
		socket = second
		h.Up()
		if err := h.Await(t.Context()); err != nil {
			t.Errorf("after the socket changed: %v", err)
		}
	})
	t.Run("IdentitiesOnly leaves other agent keys out", func(t *testing.T) {
		ring, _ := sshtest.NewKeyring(t)
		path, public := sshtest.NewKeyFile(t)
		var offered int
		s := sshtest.NewServer(t, sshtest.AcceptKey(public), sshtest.EachKey(func(ssh.PublicKey) { offered++ }))
		socket := sshtest.ServeAgent(t, ring)
		_, _, err := logIn(t, s, func(s *sshconfig.Settings) {
			s.IdentityAgent, s.IdentitiesOnly, s.IdentityFiles = socket, true, []string{path}
		})
		if err != nil || offered != 1 {
			t.Errorf("%d keys offered, %v", offered, err)
		}
	})
	t.Run("PreferredAuthentications are followed", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		s := sshtest.NewServer(t, sshtest.AcceptKey(public), sshtest.AcceptPassword("right"))
		_, h, err := logIn(t, s, func(s *sshconfig.Settings) {
			s.IdentityFiles = []string{path}
			s.PreferredAuthentications = []string{"password", "publickey"}
		}, "right")
		if err != nil || h.Status().Auth != "password" {
			t.Errorf("%v, %+v", err, h.Status())
		}
	}))
	t.Run("a push that nobody confirms is sent once", simulated(func(t *testing.T) {
		pushes := 0
		s := sshtest.NewServer(t, sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
			pushes++
			_, _ = ask("", "Pushed a login request to your device...", nil, nil)
			return errors.New("not confirmed")
		}))
		_, _, err := logIn(t, s, nil, "yes")
		if codeOf(err) != api.CodeAuth || pushes != 1 {
			t.Errorf("%d pushes: %v", pushes, err)
		}
	}))
	t.Run("a push may be confirmed until the server gives up", func(t *testing.T) {
		for _, question := range []string{"", "Passcode or option (1-1): "} {
			for after, state := range map[time.Duration]api.HostState{
				55 * time.Second: api.HostUp, 115 * time.Second: api.HostUp, 125 * time.Second: api.HostNeedsLogin,
			} {
				synctest.Test(t, func(t *testing.T) {
					b, h, _ := logIn(t, sshtest.NewServer(t, pushing(question, after)), nil, "1")
					if st := h.Status(); st.State != state || b.memory.Known("login").Logins.Refusals != 0 {
						t.Errorf("asked %q, confirmed after %v: %s, %+v", question, after, st.State, b.memory.Known("login").Logins)
					}
					time.Sleep(time.Minute) // the server's goroutine ends
				})
			}
		}
	})
	t.Run("the end of LoginGraceTime is no refusal", func(t *testing.T) {
		for grace, state := range map[time.Duration]api.HostState{
			time.Second: api.HostBlocked, // as PAM refuses an account
			time.Minute: api.HostNeedsLogin,
		} {
			synctest.Test(t, func(t *testing.T) {
				s := sshtest.NewServer(t, pushing("", time.Hour))
				time.AfterFunc(grace, s.Drop)
				b, h, _ := logIn(t, s, nil)
				synctest.Wait() // the refusal is counted after the state is set
				if n := b.memory.Known("login").Logins.Refusals; h.Status().State != state || (n > 0) != (state == api.HostBlocked) {
					t.Errorf("after %v: %+v, %d refusals", grace, h.Status(), n)
				}
				time.Sleep(time.Hour)
			})
		}
	})
	t.Run("a host too slow for its LoginGraceTime is tried again", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		s := sshtest.NewServer(t, sshtest.AcceptKey(public), acceptLate(25*time.Second), func(c *ssh.ServerConfig) {
			c.VerifiedPublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey, *ssh.Permissions, string) (*ssh.Permissions, error) {
				time.Sleep(time.Hour)
				return nil, nil
			}
		})
		b := newBench(t, s, withKeys(path))
		h := b.want(t, "login")
		time.Sleep(40 * time.Second)
		s.Drop()
		synctest.Wait()
		if st := h.Status(); st.State != api.HostWaiting || b.memory.Known("login").Logins.Refusals != 0 {
			t.Errorf("%+v, %+v", st, b.memory.Known("login").Logins)
		}
		h.Down()
		time.Sleep(time.Hour)
	}))
	t.Run("a key may wait for a touch", func(t *testing.T) {
		for takes, tt := range map[time.Duration]struct {
			grace time.Duration
			state api.HostState
		}{
			55 * time.Second:  {time.Hour, api.HostUp},
			40 * time.Second:  {20 * time.Second, api.HostNeedsLogin},
			125 * time.Second: {time.Hour, api.HostNeedsLogin},
		} {
			synctest.Test(t, func(t *testing.T) {
				path, public := lockedKey(t, "locked")
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				signer, err := ssh.ParsePrivateKeyWithPassphrase(text, []byte("open sesame"))
				if err != nil {
					t.Fatal(err)
				}
				s := sshtest.NewServer(t, sshtest.AcceptKey(public))
				b := newBench(t, s, withKeys(path))
				b.keys.Put(path, info.ModTime(), slowSigner{signer.(ssh.AlgorithmSigner), takes})
				time.AfterFunc(tt.grace, s.Drop)
				h := b.want(t, "login")
				_ = h.Await(t.Context())
				if st := h.Status(); st.State != tt.state || b.memory.Known("login").Logins.Refusals != 0 {
					t.Errorf("signed after %v: %+v, %+v", takes, st, b.memory.Known("login").Logins)
				}
			})
		}
	})
}

// lockedKey copies a key of testdata, encrypted in one quick round.
func lockedKey(t *testing.T, name string) (string, ssh.PublicKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	for _, suffix := range []string{"", ".pub"} {
		text, err := os.ReadFile(filepath.Join("testdata", "keys", name+suffix))
		if err != nil {
			t.Fatal(err)
		}
		write(t, path+suffix, string(text))
	}
	text, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return path, public
}

// pushing sends a push to a phone, after a question or at once, that is confirmed after a
// time.
func pushing(question string, after time.Duration) sshtest.Login {
	return sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
		if question != "" {
			if _, err := ask("", "", []string{question}, []bool{true}); err != nil {
				return err
			}
		}
		time.Sleep(after)
		return nil
	})
}

// slowSigner takes a time to sign, as a key does that waits for a touch.
type slowSigner struct {
	ssh.AlgorithmSigner
	takes time.Duration
}

func (s slowSigner) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	time.Sleep(s.takes)
	return s.AlgorithmSigner.SignWithAlgorithm(r, data, algorithm)
}
