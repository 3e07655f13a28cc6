package tunnel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

func TestTheClassOfAFailureAloneDecidesWhatFollows(t *testing.T) {
	for class, want := range map[failureClass]api.HostState{
		classUnknown:     api.HostWaiting,
		classPassing:     api.HostWaiting,
		classClosedPort:  api.HostWaiting,
		classBanned:      api.HostBlocked,
		classRefused:     api.HostBlocked, // in front of a person, at once
		classNeedsPerson: api.HostNeedsLogin,
		classPermanent:   api.HostBlocked,
	} {
		for _, code := range []api.Code{api.CodeUnreachable, api.CodeAuth, api.CodeConfig, api.CodeNeedsPerson, api.CodeFailed} {
			t.Run(fmt.Sprintf("%d/%s", class, code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, _ := keyed(t)
					tries := 0
					b.resolve = func(context.Context, string) (sshconfig.Settings, error) {
						tries++
						return sshconfig.Settings{}, &api.Error{Code: code, Message: "no", Err: class.of(errors.New("no"))}
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
	if got := new(attempt).classOf(strange); got != classPassing {
		t.Errorf("before a login: %d", got)
	}
	if got := (&attempt{loginAt: time.Now()}).classOf(strange); got != classRefused {
		t.Errorf("after a login was begun: %d", got)
	}
	known := &api.Error{Message: "known", Err: classPassing.of(strange)}
	if got := (&attempt{loginAt: time.Now()}).classOf(known); got != classPassing {
		t.Errorf("known to pass: %d", got)
	}
	if got := classOf(viaError("hop", classRefused.of(errors.New("no")))); got != classRefused {
		t.Errorf("a hop's failure at its user: %d", got)
	}
}
