package agent_test

import (
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

func TestAStreamsConnectionToANodeEndsWithIt(t *testing.T) {
	w := newWorld(t)
	w.restart(config, func(l *agent.Limits) { l.Tunnel.NodeIdle = 10 * time.Millisecond })
	for range 2 { // the second one makes it anew
		s, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamSFTP, Host: "practice", Node: "practice"})
		if err != nil {
			t.Fatal(err)
		}
		w.untilHost("practice,practice", string(api.HostUp), func(h api.Host) bool { return h.State == api.HostUp })
		_ = s.Close()
		w.untilHost("practice,practice", string(api.HostDown), func(h api.Host) bool { return h.State == api.HostDown })
	}
	w.untilHost("practice", string(api.HostUp), func(h api.Host) bool { return h.State == api.HostUp })
}
