package tunnel

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// dialled is what a try dials by some settings, in order, where nothing answers.
func dialled(t *testing.T, set func(*sshconfig.Settings)) (calls []string, d *net.Dialer, err error) {
	t.Helper()
	b := newBenchOf(t, nil, nil)
	b.network.Dial = func(_ context.Context, with *net.Dialer, network, address string) (net.Conn, error) {
		calls, d = append(calls, network+" "+address), with
		return nil, errors.New("no route to host")
	}
	try := attemptOf(b.Host("login"), func(a *attempt) {
		a.settings = sshconfig.Settings{Alias: "login", Hostname: "login", Port: 22, TCPKeepAlive: true}
	})
	set(&try.settings)
	_, _, err = try.reach(t.Context())
	return calls, d, err
}

func TestDial(t *testing.T) {
	t.Run("AddressFamily decides the network", func(t *testing.T) {
		for family, want := range map[string]string{"": "tcp", "any": "tcp", "inet": "tcp4", "inet6": "tcp6"} {
			calls, _, _ := dialled(t, func(s *sshconfig.Settings) { s.AddressFamily = family })
			if !slices.Equal(calls, []string{want + " login:22"}) {
				t.Errorf("AddressFamily %q dials %q", family, calls)
			}
		}
	})
	t.Run("TCPKeepAlive is as the user says", func(t *testing.T) {
		for wanted, want := range map[bool]time.Duration{true: 30 * time.Second, false: -1} {
			if _, d, _ := dialled(t, func(s *sshconfig.Settings) { s.TCPKeepAlive = wanted }); d.KeepAlive != want {
				t.Errorf("TCPKeepAlive %v dials with %v", wanted, d.KeepAlive)
			}
		}
	})
	t.Run("a BindAddress that is none is named", func(t *testing.T) {
		calls, _, err := dialled(t, func(s *sshconfig.Settings) { s.BindAddress, s.AddressFamily = "::1", "inet" })
		if codeOf(err) != api.CodeConfig || !strings.Contains(err.Error(), `BindAddress "::1"`) || len(calls) > 0 {
			t.Errorf("dials %q: %v", calls, err)
		}
	})
	t.Run("lands on the login node of the last one", func(t *testing.T) {
		for name, test := range map[string]struct {
			addresses []string // of the host's name, at the second login
			gone      bool     // the login node does not answer then
			want      []string
		}{
			"among several":            {[]string{"192.0.2.9", "192.0.2.2"}, false, []string{"192.0.2.2:22"}},
			"which is away":            {[]string{"192.0.2.9", "192.0.2.2"}, true, []string{"192.0.2.2:22", "login:22"}},
			"which was taken out":      {[]string{"192.0.2.9", "192.0.2.8"}, false, []string{"login:22"}},
			"which is the only one":    {[]string{"192.0.2.2"}, false, []string{"login:22"}},
			"where there are no names": {nil, false, []string{"login:22"}},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, s := keyed(t)
				b.network.Lookup = func(context.Context, string) ([]string, error) { return test.addresses, nil }
				var calls []string
				b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
					calls = append(calls, address)
					if test.gone && address != "login:22" {
						return nil, errors.New("no route to host")
					}
					return s.Dial(ctx, d, network, address)
				}
				h := b.up(t, "login")
				if last := b.memory.Known("login").Address; last != "192.0.2.2:22" {
					t.Errorf("remembered %q", last)
				}
				calls = nil
				time.Sleep(time.Hour)
				s.Drop()
				synctest.Wait()
				mustConnect(t, h)
				if !slices.Equal(calls, test.want) {
					t.Errorf("dialled %q, want %q", calls, test.want)
				}
			}))
		}
	})
}
