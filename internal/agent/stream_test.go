package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

// nodeStream opens a stream on a node behind the practice cluster: the cluster again,
// which has but one machine.
func (w *world) nodeStream(ctx context.Context) (end func()) {
	w.t.Helper()
	s, err := w.client.Stream(ctx, api.StreamRequest{Kind: api.StreamSFTP, Host: "practice", Node: "practice"})
	if err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = s.Close() }
}

func isUp(h api.Host) bool   { return h.State == api.HostUp }
func isDown(h api.Host) bool { return h.State == api.HostDown }

func TestAStreamsConnectionToANodeEndsWithIt(t *testing.T) {
	w := newWorld(t)
	w.restart(config, func(l *agent.Limits) { l.Tunnel.NodeIdle = time.Nanosecond })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w.nodeStream(ctx)()
	for first := w.cluster.Logins(); w.cluster.Logins() == first; {
		w.nodeStream(ctx)() // one that comes early shares the connection of the one before
	}
	w.untilHost("practice", "up", isUp)
}

func TestALogoutEndsTheStreamsOnNodesToo(t *testing.T) {
	w := newWorld(t)
	defer w.nodeStream(t.Context())()
	w.untilHost("practice", "up", isUp)
	if list := w.listedHosts(); list != "practice" {
		t.Errorf("the status lists %q", list)
	}
	if err := w.client.Logout(t.Context(), "practice"); err != nil {
		t.Fatal(err)
	}
	w.untilHost("practice", "down", isDown)
}

func TestALogoutThatEndsNothingSaysWhoUsesTheConnection(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host other")
	for _, name := range []string{"practice", "other"} {
		if _, err := w.client.Login(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		w.untilHost(name, "up", isUp)
	}
	err := w.client.Logout(t.Context(), "practice")
	if err == nil || !strings.Contains(err.Error(), "the connection to practice stays up: other still uses it") {
		t.Errorf("err = %v", err)
	}
	for _, name := range []string{"other", "practice"} {
		if err := w.client.Logout(t.Context(), name); err != nil {
			t.Error(err)
		}
		w.untilHost(name, "down", isDown)
	}
}

func TestAPingMeasuresAConnectionAndNeverMakesOne(t *testing.T) {
	w := newWorld(t)
	if rtt, err := w.client.Ping(t.Context(), "practice"); err == nil {
		t.Errorf("a host that is not connected answered within %v", rtt)
	}
	if n := w.cluster.Logins(); n != 0 {
		t.Errorf("%d logins", n)
	}
	s, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamSFTP, Host: "practice"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if rtt, err := w.client.Ping(t.Context(), "practice"); err != nil || rtt <= 0 {
		t.Errorf("a connected host: %v, %v", rtt, err)
	}
}
