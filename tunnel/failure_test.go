package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

func TestFailure(t *testing.T) {
	t.Run("its class alone decides what follows", func(t *testing.T) {
		for class, want := range map[failure.Class]api.HostState{
			failure.Unknown:    api.HostWaiting,
			failure.Passing:    api.HostWaiting,
			failure.ClosedPort: api.HostWaiting,
			failure.Banned:     api.HostWaiting, // for logins of others
			failure.Refused:    api.HostBlocked, // in front of the user, at once
			failure.NeedsUser:  api.HostNeedsLogin,
			failure.Permanent:  api.HostBlocked,
		} {
			for _, code := range []api.Code{api.CodeUnreachable, api.CodeAuth, api.CodeConfig, api.CodeNeedsPerson, api.CodeFailed} {
				t.Run(fmt.Sprintf("%d/%s", class, code), simulated(func(t *testing.T) {
					b, _ := keyed(t)
					tries := 0
					b.resolve = func(context.Context, string) (sshconfig.Settings, error) {
						tries++
						return sshconfig.Settings{}, &api.Error{Code: code, Message: "no", Err: class.Wrap(errors.New("no"))}
					}
					h := b.begin(t, "login")
					synctest.Wait()
					if got := h.Status().State; got != want {
						t.Errorf("the host is %s, want %s", got, want)
					}
					b.NetworkChanged()
					synctest.Wait()
					if again := tries > 1; again != (want == api.HostWaiting) {
						t.Errorf("%d tries after the network's return", tries)
					}
				}))
			}
		}
	})
	t.Run("of no known class is a refusal once a login was begun", func(t *testing.T) {
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
	})
}

// TestLoginClass ends a login by key in each of its moments and on each route, and checks who is
// said to have failed.
func TestLoginClass(t *testing.T) {
	const passing, refused = failure.Passing, failure.Refused
	direct, carried := []string{"direct"}, []string{"jump", "hop"}
	for name, tt := range map[string]struct {
		routes          []string
		fault           func(server, carrier *sshtest.Server)
		offered, signed failure.Class // by whether the key has signed
	}{
		"the server refuses":        {slices.Concat(direct, carried), func(_, _ *sshtest.Server) {}, refused, refused},
		"the server hangs up":       {slices.Concat(direct, carried), func(s, _ *sshtest.Server) { s.Drop() }, passing, refused},
		"the link is silent":        {slices.Concat(direct, carried), func(s, _ *sshtest.Server) { s.Pause(true) }, passing, passing},
		"the link is cut":           {direct, func(s, _ *sshtest.Server) { s.Cut() }, passing, passing},
		"the carrier's link is cut": {carried, func(_, c *sshtest.Server) { c.Cut() }, passing, passing},
		"the carrier is silent":     {carried, func(_, c *sshtest.Server) { c.Pause(true) }, passing, passing},
		"the carrier hangs up":      {carried, func(_, c *sshtest.Server) { c.Drop() }, passing, passing},
	} {
		for _, route := range tt.routes {
			for when, want := range map[string]failure.Class{"offered": tt.offered, "signed": tt.signed} {
				t.Run(name+"/"+route+"/"+when, simulated(func(t *testing.T) {
					b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
					server, carrier := servers["inner"], servers["outer"]
					if route == "direct" {
						server = carrier
					} else {
						b.up(t, "outer")
					}
					fail := func() (*ssh.Permissions, error) {
						tt.fault(server, carrier)
						time.Sleep(time.Second) // the client notices
						return nil, errors.New("no")
					}
					if when == "offered" {
						server.Config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return fail() }
					} else {
						server.Config.VerifiedPublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey, *ssh.Permissions, string) (*ssh.Permissions, error) {
							return fail()
						}
					}
					if got, err := loginClass(t, b, route); got != want {
						t.Errorf("class %d, want %d: %v", got, want, err)
					}
				}))
			}
		}
	}
}

// loginClass logs in on a route without the user, and returns how that failed.
func loginClass(t *testing.T, b *bench, route string) (failure.Class, error) {
	t.Helper()
	if route == "hop" {
		_, err := b.Host("outer").Link().Hop([]string{"inner"}).Dial(t.Context(), "tcp", "echo:1")
		if errors.Is(err, api.ErrDown) { // of the host, whatever the node would have said
			return failure.Passing, err
		}
		return failure.Of(err), err
	}
	h := b.Host("inner")
	if route == "direct" {
		h = b.Host("outer")
		b.serve(t)
	}
	b.memory.Remember(h.name, func(k *api.Known) { k.Silent = true })
	h.Want()
	var err *api.Error
	awaitHost(t, h, 10*time.Minute, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		err = h.facts.failure
		return err != nil
	})
	return failure.Of(err), err
}
