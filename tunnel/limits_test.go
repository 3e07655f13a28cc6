package tunnel

import (
	"errors"
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

func TestLimits(t *testing.T) {
	t.Run("a site can only make them stricter", func(t *testing.T) {
		own := DefaultLimits()
		if got := own.within(&sshconfig.Settings{}); got != own {
			t.Errorf("a host without a site: %+v", got)
		}
		lax := sshconfig.Settings{MaxSessions: 100, Refusals: 10, LoginSpacing: time.Second, RetryMin: time.Millisecond}
		same := own
		same.SitePause = lax.RetryMin // which the backoff exceeds
		if got := own.within(&lax); got != same {
			t.Errorf("a site that allows more: %+v", got)
		}
		strict := sshconfig.Settings{MaxSessions: 1, Refusals: 1, LoginSpacing: time.Hour, RetryMin: 30 * time.Minute}
		got := own.within(&strict)
		if got.MaxSessions != 1 || got.Refusals != 1 || got.LoginSpacing != time.Hour || got.RetryMin != 30*time.Minute || got.RetryMax < got.RetryMin {
			t.Errorf("a strict site: %+v", got)
		}
	})
	t.Run("a site keeps attempts apart also when the network changes", simulated(func(t *testing.T) {
		b, s := keyed(t, func(x *sshconfig.Settings) { x.RetryMin = 10 * time.Minute })
		s.Set(func(s *sshtest.Server) { s.Refuse = errors.New("no route to host") })
		b.want(t, "login")
		for range 6 * 60 { // an hour of a Wi-Fi that comes and goes
			time.Sleep(10 * time.Second)
			b.NetworkChanged()
		}
		if dials := s.Dials(); dials < 2 || dials > 7 {
			t.Errorf("%d attempts in an hour, ten minutes apart at least", dials)
		}
	}))
	t.Run("a spare session is not waited for", simulated(func(t *testing.T) {
		b, _ := keyed(t, func(x *sshconfig.Settings) { x.MaxSessions = 1 })
		h := b.up(t, "login")
		synctest.Wait() // the command after the login has ended
		first, _, err := h.OpenChannel(Spare(t.Context()), "session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(first)
		began := time.Now()
		if _, _, err := h.OpenChannel(Spare(t.Context()), "session", nil); !api.HasCode(err, api.CodeTimeout) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	}))
	t.Run("a site with one session gets one command at a time", simulated(func(t *testing.T) {
		b, s := keyed(t, func(x *sshconfig.Settings) { x.MaxSessions = 1 })
		var running, most atomic.Int32
		s.Commands = map[string]func(ssh.Channel) int{"work": func(ssh.Channel) int {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return 0
		}}
		h := b.up(t, "login")
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := h.Run(t.Context(), "work", nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(24 * time.Hour) // the limit does not grow
		for range 5 {
			all.Go(func() { _, _ = h.Run(t.Context(), "work", nil) })
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d commands at a time", most.Load())
		}
	}))
}
