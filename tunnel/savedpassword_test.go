package tunnel

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// box is a place for passwords.
type box struct {
	mu      sync.Mutex
	kept    map[string]string
	refused bool
}

func (b *box) Password(_ context.Context, account string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		return "", false
	}
	text, ok := b.kept[account]
	return text, ok
}

func (b *box) Keep(_ context.Context, account, password string, where api.Keep) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if where != api.KeepKeyring {
		return errors.New("kept in the wrong place")
	}
	b.kept[account], b.refused = password, false
	return nil
}

func (b *box) SetRefused(string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = true
}

func (b *box) Refused(string) api.Keep {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		return api.KeepKeyring
	}
	return api.KeepNot
}

const boxedAccount = "alice@login:22"

// boxed is a bench with a host "login" and a place for passwords; the user wants
// each of their passwords kept.
func boxed(t *testing.T, s *sshtest.Server, kept string, answers ...string) (*bench, *Host, *box) {
	t.Helper()
	b := newBench(t, s, func(s *sshconfig.Settings) { s.User = "alice" })
	b.person.answers, b.person.keep = answers, api.KeepKeyring
	x := &box{kept: map[string]string{}}
	if kept != "" {
		x.kept[boxedAccount] = kept
	}
	b.o.Passwords = x
	b.serve(t)
	return b, b.Host("login"), x
}

func TestSavedPassword(t *testing.T) {
	t.Run("logs in again by itself", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
		b, h, x := boxed(t, s, "", "wrong", "right")
		mustUp(t, h)
		if text, _ := x.Password(t.Context(), boxedAccount); text != "right" || !b.memory.Known("login").Silent {
			t.Fatalf("kept %q, silent %v", text, b.memory.Known("login").Silent)
		}
		time.Sleep(time.Hour)
		since := h.Status().Since
		s.Drop()
		time.Sleep(10 * time.Minute)
		if now := h.Status(); now.State != api.HostUp || now.Since.Equal(since) || len(b.person.questions()) != 2 {
			t.Errorf("after a drop %+v, asked %d times", now, len(b.person.questions()))
		}
	}))
	t.Run("that the network loses is sent again", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
		b, h, _ := boxed(t, s, "right")
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		accept := s.Config.PasswordCallback
		s.Config.PasswordCallback = func(m ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			if s.Logins() < 2 {
				s.Cut()
				time.Sleep(time.Second)
			}
			return accept(m, given)
		}
		h.Want()
		mustConnect(t, h)
		if w := h.Status().Warnings; len(w) != 0 {
			t.Errorf("warnings %q", w)
		}
	}))
	t.Run("that is refused waits for the user", simulated(func(t *testing.T) {
		var sent atomic.Int32 // the old one
		s := sshtest.NewServer(t, func(c *ssh.ServerConfig) {
			c.PasswordCallback = func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
				if string(given) == "right" {
					return nil, nil
				}
				sent.Add(1)
				return nil, errors.New("no")
			}
		})
		b, h, x := boxed(t, s, "old")
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		h.Want()
		time.Sleep(24 * time.Hour)
		if sent.Load() != 1 || x.kept[boxedAccount] != "old" || h.Status().State != api.HostNeedsLogin {
			t.Fatalf("sent %d times, kept %q, %+v", sent.Load(), x.kept, h.Status())
		}
		b.person.answers, b.person.keep = []string{"right"}, api.KeepNot // they have said once to save it
		mustUp(t, h)
		if text, usable := x.Password(t.Context(), boxedAccount); sent.Load() != 1 || text != "right" || !usable || !b.memory.Known("login").Silent {
			t.Errorf("sent %d times, kept %q, usable %v", sent.Load(), text, usable)
		}
	}))
	t.Run("never answers a code", func(t *testing.T) {
		for _, question := range []string{"One-time password (OATH) for `alice': ", "Verification code: ", "Password: ", "Passcode or option (1-2): "} {
			synctest.Test(t, func(t *testing.T) {
				given := make(chan []string, 1)
				s := sshtest.NewServer(t, sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
					answers, err := ask("", "", []string{"Password: ", question}, []bool{false, false})
					given <- answers
					return err
				}))
				b, h, _ := boxed(t, s, "secret", "123456")
				mustUp(t, h)
				if got := strings.Join(<-given, " "); got != "secret 123456" || b.memory.Known("login").Silent {
					t.Errorf("%q: answered %q, silent %v", question, got, b.memory.Known("login").Silent)
				}
			})
		}
	})
}

func TestACommandRunsBeforeAPersonLogsIn(t *testing.T) {
	path, public := sshtest.NewKeyFile(t)
	mark := filepath.Join(t.TempDir(), "mark")
	for name, x := range map[string]struct{ line, says string }{
		"works": {"test ! -f " + mark + " && echo >" + mark, ""},
		"fails": {"echo no network >&2; exit 7", "exit status 7; its output: no network"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := logIn(t, sshtest.NewServer(t, sshtest.AcceptKey(public)), func(s *sshconfig.Settings) {
				s.IdentityFiles, s.BeforeLogin = []string{path}, x.line
			})
			if x.says == "" && err != nil || x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)) {
				t.Errorf("login says %v; want %q", err, x.says)
			}
		})
	}
}
