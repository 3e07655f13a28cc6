package agent_test

import (
	"testing"

	"tunctl/internal/api"
)

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
