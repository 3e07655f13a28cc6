package tunnel

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

func TestConn(t *testing.T) {
	// A channel that is opened in the moment in which its link ends must not be waited
	// for: the test hangs then, which synctest tells.
	t.Run("what is begun when a link ends, ends with it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.serve(t)
		h := b.Host("login")
		for range 50 {
			mustUp(t, h)
			ended := make(chan struct{})
			for i := range 4 {
				go func() {
					defer func() { ended <- struct{}{} }()
					for n := 0; ; n++ {
						if i == 0 && n == 5 {
							go s.HangUp()
						}
						if _, err := h.Dial(t.Context(), "tcp", "refused:1"); !errors.Is(err, api.ErrRefused) {
							return
						}
					}
				}()
			}
			for range 4 {
				<-ended
			}
		}
		time.Sleep(time.Hour)
		mustConnect(t, h)
	}))
	t.Run("the host comes back though something hangs on the lost one", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		c, err := h.current()
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		defer close(release)
		c.spawn(func() { <-release })
		time.Sleep(time.Hour)
		s.Drop()
		synctest.Wait()
		time.Sleep(closeTimeout)
		synctest.Wait()
		mustConnect(t, h)
		if now, err := h.current(); err != nil || now == c {
			t.Errorf("it still has the lost connection, %v", err)
		}
	}))
}
