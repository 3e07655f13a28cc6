package agent_test

import (
	"context"
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
func (w *world) after(ask func() error, want func(api.Event) bool) api.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var found *api.Event
	asked := false
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		switch {
		case !asked:
			asked = true
			if err := ask(); err != nil {
				w.t.Error(err)
				cancel()
			}
		case found == nil && want(e):
			found = &e
			cancel()
		}
	})
	if found == nil {
		w.t.Fatal("no such event")
	}
	return *found
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
	st, err := w.client.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, h := range st.Hosts {
		names = append(names, h.Alias)
	}
	return strings.Join(names, " ")
}

func TestAMistypedHostIsToldWithTheOneThatWasMeantAndNotTriedAgain(t *testing.T) {
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
}

func TestANameThatNoHostCanHaveIsNotKept(t *testing.T) {
	w := newWorld(t)
	before := w.listedHosts()
	if h := w.loginFails("-o narval"); h.Code != api.CodeUsage {
		t.Errorf("%+v", h)
	}
	if list := w.listedHosts(); list != before {
		t.Errorf("the status lists %q", list)
	}
}

func TestAMistypedHostOfASessionIsToldWithTheOneThatWasMeant(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host "+written)
	w.edit(strings.Replace(config, `"practice"`, `"`+mistyped+`"`, 1))
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	if s := w.until("failed", failed); s.Hint != "did you mean practice+lab?" || s.Code != api.CodeUnknownHost {
		t.Errorf("%q, hint %q, code %s", s.Cause, s.Hint, s.Code)
	}
	if list := w.listedHosts(); strings.Contains(list, mistyped) {
		t.Errorf("the status lists %s", list)
	}
	if err := w.client.Logout(t.Context(), mistyped); err != nil {
		t.Errorf("a host of a session cannot be logged out of: %v", err)
	}
}

func TestAHostThatIsWrittenSomewhereIsTriedAgainThoughItsNameIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host away", "HostName 127.0.0.1", "HostName "+nowhere)
	if h := w.loginFails("away"); h.State != api.HostWaiting {
		t.Errorf("%+v", h)
	}
	if list := w.listedHosts(); !strings.Contains(list, "away") {
		t.Errorf("the status lists %q", list)
	}
	if err := w.client.Logout(t.Context(), "away"); err != nil {
		t.Fatal(err)
	}
	if list := w.listedHosts(); strings.Contains(list, "away") {
		t.Errorf("after it was given up, the status lists %q", list)
	}
}

func TestAForwardThatNeverCameUpLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
	for _, host := range []string{nowhere, "closed"} {
		gone := w.after(func() error {
			_, err := w.client.Forward(t.Context(), api.ForwardRequest{Host: host, Specs: []string{"R:9000:localhost:9000"}})
			return err
		}, func(e api.Event) bool { return e.Type == api.EventSessionGone }).Session
		if gone.State != api.SessionFailed || gone.Cause == "" {
			t.Errorf("%s: %+v", host, gone)
		}
		w.stop()
		w.start()
		st, err := w.client.Status(t.Context())
		if _, listed := st.Session(gone.Name); err != nil || listed {
			t.Errorf("%s is listed after a restart: %+v, %v", gone.Name, st.Sessions, err)
		}
	}
}
