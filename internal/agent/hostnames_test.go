package agent_test

import (
	"strings"
	"testing"

	"tunctl/internal/api"
)

// A plus sign is in no name of a name service: Go's resolver says so without asking one.
const (
	written  = "practice+lab"
	mistyped = "practise+lab"
	nowhere  = "zzz+lab"
)

// after asks once a watch is open, and returns the first event after that which is as
// wanted.
func (w *world) after(ask func() error, want func(api.Event) bool) (found api.Event) {
	w.t.Helper()
	asked := false
	seen := w.watch(func(e api.Event) bool {
		if !asked {
			asked = true
			must(w.t, ask())
			return false
		}
		found = e
		return want(e)
	})
	if !seen {
		w.t.Fatal("no such event")
	}
	return found
}

// loginFails asks for a host that cannot be connected to, and returns how it is then.
func (w *world) loginFails(name string) api.Host {
	w.t.Helper()
	e := w.after(func() error {
		_, err := w.client.Login(w.t.Context(), name)
		return err
	}, func(e api.Event) bool {
		return e.Host != nil && e.Host.Alias == name && (e.Host.State == api.HostBlocked || e.Host.State == api.HostWaiting)
	})
	return *e.Host
}

// listedHosts are the names of the status's hosts.
func (w *world) listedHosts() string {
	w.t.Helper()
	st := w.status()
	var names []string
	for _, h := range st.Hosts {
		names = append(names, h.Alias)
	}
	return strings.Join(names, " ")
}

func TestHostName(t *testing.T) {
	t.Parallel()
	t.Run("that is mistyped is told with the one that was meant, and not tried again", func(t *testing.T) {
		for name, hint := range map[string]string{
			mistyped:          "did you mean practice+lab?",
			"ann@" + mistyped: "did you mean ann@practice+lab?",
			nowhere:           "`tunctl hosts` lists",
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.alias(w.cluster, "Host practice", "Host "+written)
				h := w.loginFails(name)
				if h.State != api.HostBlocked || h.Code != api.CodeUnknownHost || !strings.Contains(h.Cause, "no host ") || !strings.Contains(h.Hint, hint) {
					t.Errorf("%+v", h)
				}
				if list := w.listedHosts(); strings.Contains(list, name) {
					t.Errorf("the status lists %s", list)
				}
				if err := w.client.Logout(t.Context(), name); err == nil {
					t.Error("there is a connection to log out of")
				}
			})
		}
	})
	t.Run("that no host can have is not kept", func(t *testing.T) {
		w := newWorld(t)
		before := w.listedHosts()
		if h := w.loginFails("-o narval"); h.Code != api.CodeUsage {
			t.Errorf("%+v", h)
		}
		if list := w.listedHosts(); list != before {
			t.Errorf("the status lists %q", list)
		}
	})
	t.Run("of a session that is mistyped is told with the one that was meant", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host "+written)
		w.edit(strings.Replace(config, `"practice"`, `"`+mistyped+`"`, 1))
		w.bringUp()
		if s := w.until("failed", failed); s.Hint != "did you mean practice+lab?" || s.Code != api.CodeUnknownHost {
			t.Errorf("%q, hint %q, code %s", s.Cause, s.Hint, s.Code)
		}
		if list := w.listedHosts(); strings.Contains(list, mistyped) {
			t.Errorf("the status lists %s", list)
		}
		if err := w.client.Logout(t.Context(), mistyped); err != nil {
			t.Errorf("a host of a session cannot be logged out of: %v", err)
		}
	})
	t.Run("that is written somewhere is tried again though it is unknown", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host away", "HostName 127.0.0.1", "HostName "+nowhere)
		if h := w.loginFails("away"); h.State != api.HostWaiting {
			t.Errorf("%+v", h)
		}
		if list := w.listedHosts(); !strings.Contains(list, "away") {
			t.Errorf("the status lists %q", list)
		}
		must(t, w.client.Logout(t.Context(), "away"))
		if list := w.listedHosts(); strings.Contains(list, "away") {
			t.Errorf("after it was given up, the status lists %q", list)
		}
	})
}
