package agent_test

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

// untilHost waits for a host to be in a state.
func (w *world) untilHost(name string, want api.HostState) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last api.HostState
	_ = w.client.Watch(ctx, api.AnswersNone, func(e api.Event) { // it ends by our cancel
		hosts := []api.Host{}
		switch {
		case e.Status != nil:
			hosts = e.Status.Hosts
		case e.Host != nil:
			hosts = append(hosts, *e.Host)
		}
		for _, h := range hosts {
			if h.Alias == name {
				last = h.State
			}
		}
		if last == want {
			cancel()
		}
	})
	if last != want {
		w.t.Fatalf("%s was never %s; last: %s", name, want, last)
	}
}

func TestAStreamsConnectionToANodeEndsWithIt(t *testing.T) {
	w := newWorld(t)
	w.restart(config, func(l *agent.Limits) { l.Tunnel.NodeIdle = 10 * time.Millisecond })
	for range 2 { // the second one makes it anew
		s, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamSFTP, Host: "practice", Node: "practice"})
		if err != nil {
			t.Fatal(err)
		}
		w.untilHost("practice,practice", api.HostUp)
		_ = s.Close()
		w.untilHost("practice,practice", api.HostDown)
	}
	w.untilHost("practice", api.HostUp)
}
