package tunnel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

func TestTheClassOfAFailureAloneDecidesWhatFollows(t *testing.T) {
	for class, want := range map[failure.Class]api.HostState{
		failure.Unknown:    api.HostWaiting,
		failure.Passing:    api.HostWaiting,
		failure.ClosedPort: api.HostWaiting,
		failure.Banned:     api.HostBlocked,
		failure.Refused:    api.HostBlocked, // in front of a person, at once
		failure.NeedsUser:  api.HostNeedsLogin,
		failure.Permanent:  api.HostBlocked,
	} {
		for _, code := range []api.Code{api.CodeUnreachable, api.CodeAuth, api.CodeConfig, api.CodeNeedsPerson, api.CodeFailed} {
			t.Run(fmt.Sprintf("%d/%s", class, code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, _ := keyed(t)
					tries := 0
					b.resolve = func(context.Context, string) (sshconfig.Settings, error) {
						tries++
						return sshconfig.Settings{}, &api.Error{Code: code, Message: "no", Err: class.Wrap(errors.New("no"))}
					}
					b.serve(t)
					h := b.Host("login")
					h.Up()
					synctest.Wait()
					if got := h.Status().State; got != want {
						t.Errorf("the host is %s, want %s", got, want)
					}
					b.NetworkChanged()
					synctest.Wait()
					if again := tries > 1; again != (want == api.HostWaiting) {
						t.Errorf("%d tries after the network's return", tries)
					}
				})
			})
		}
	}
}

func TestAFailureOfNoKnownClassIsARefusalOnceALoginWasBegun(t *testing.T) {
	strange := &api.Error{Code: api.CodeUnreachable, Message: "strange"}
	if got := newAttempt(&Host{}).classOf(strange); got != failure.Passing {
		t.Errorf("before a login: %d", got)
	}
	if got := attemptOf(&Host{}, func(a *attempt) { a.loginAt = time.Now() }).classOf(strange); got != failure.Refused {
		t.Errorf("after a login was begun: %d", got)
	}
	known := &api.Error{Message: "known", Err: failure.Passing.Wrap(strange)}
	if got := attemptOf(&Host{}, func(a *attempt) { a.loginAt = time.Now() }).classOf(known); got != failure.Passing {
		t.Errorf("known to pass: %d", got)
	}
	if got := failure.Of(viaError("hop", failure.Refused.Wrap(errors.New("no")))); got != failure.Refused {
		t.Errorf("a hop's failure at its user: %d", got)
	}
}
