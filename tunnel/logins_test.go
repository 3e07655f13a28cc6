package tunnel

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// restarted is the next process after that of b: it has what b's memory has.
func (b *bench) restarted(t *testing.T) *bench {
	t.Helper()
	b.end()
	next := &bench{person: b.person, memory: b.memory, Pool: NewPool(b.o)}
	next.resolve, next.network.Dial, next.network.Lookup, next.network.Watch = b.resolve, b.network.Dial, b.network.Lookup, b.network.Watch
	next.serve(t)
	return next
}

// refuse makes a server refuse every login, until the returned function is called.
func refuse(s *sshtest.Server) (accept func()) {
	was := s.Config.PublicKeyCallback
	s.Config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
	return func() { s.Config.PublicKeyCallback = was }
}

func TestRestart(t *testing.T) {
	t.Run("keeps the time between two logins", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		b.serve(t)
		b.Host("login").Want()
		synctest.Wait()
		for range 5 { // a crash every few seconds
			time.Sleep(3 * time.Second)
			b = b.restarted(t)
			b.Host("login").Want()
			synctest.Wait()
		}
		if st := b.Host("login").Status(); st.State != api.HostWaiting || !strings.Contains(st.Cause, "next try at") {
			t.Errorf("%s: %s", st.State, st.Cause)
		}
		time.Sleep(44 * time.Second)
		s.WantLogins(t, 1)
		time.Sleep(2 * time.Second)
		if logins := s.Logins(); logins != 2 || b.Host("login").Status().State != api.HostUp {
			t.Errorf("%d logins after a minute: %+v", logins, b.Host("login").Status())
		}
	}))
	t.Run("a login is remembered before the server counts it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		accept := s.Config.PublicKeyCallback
		var known time.Time
		s.Config.PublicKeyCallback = func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			known = b.memory.Known("login").Logins.Last
			return accept(c, key)
		}
		b.up(t, "login")
		if known.IsZero() {
			t.Error("a crash during the login would have been followed by another login at once")
		}
	}))
	t.Run("forgets no refusal", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		accept := refuse(s)
		b.serve(t)
		b.Host("login").Want()
		h := b.Host("login")
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostWaiting })
		b = b.restarted(t) // after the first of two
		b.Host("login").Want()
		time.Sleep(time.Hour)
		s.WantLogins(t, 2)
		said := b.Host("login").Status().Cause
		b = b.restarted(t)
		h = b.Host("login")
		h.Want()
		day(b, s)
		s.WantLogins(t, 2)
		if st := h.Status(); st.State != api.HostBlocked || st.Code != api.CodeAuth || st.Cause != said || !strings.Contains(st.Hint, "tunctl login login") {
			t.Errorf("before the restart: %s\nafter: %+v", said, st)
		}
		accept()
		mustUp(t, h)
		synctest.Wait() // it is saved a moment after the host is shown as connected
		if l := b.memory.Known("login").Logins; l.Refusals != 0 || l.Why != "" {
			t.Errorf("after a login: %+v", l)
		}
	}))
	t.Run("a login refused during a suspected ban blocks after it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		b.memory.Remember("login", func(k *api.Known) {
			k.Logins = api.Logins{BannedUntil: time.Now().Add(time.Hour), Why: "the port is closed"}
		})
		refuse(s)
		b.person.answers = []string{"yes"} // a person tries it nevertheless
		b.serve(t)
		h := b.Host("login")
		h.Up()
		_ = h.Await(t.Context())
		said := h.Status().Cause
		b = b.restarted(t)
		h = b.Host("login")
		h.Want()
		time.Sleep(2 * time.Hour)
		if st := h.Status(); st.State != api.HostBlocked || st.Code != api.CodeAuth || st.Cause != said {
			t.Errorf("before the restart: %s\nafter: %+v", said, st)
		}
		s.WantLogins(t, 1)
	}))
}
