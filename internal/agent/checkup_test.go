package agent

import (
	"errors"
	"strings"
	"testing"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
)

func TestTheDoctorDoesNotSayThatAServerForOneClientResponds(t *testing.T) {
	s := quietSession(t)
	c := &checkup{agent: s.agent, session: s, host: s.agent.pool.Host("narval")}
	c.page(t.Context(), facts.Facts{Endpoint: &api.Endpoint{App: "paraview", Scheme: "cs", Host: "cn01", Port: 11111, Reach: api.ReachLogin}})
	if len(c.checks) != 1 || c.checks[0].Result != api.CheckUnknown {
		t.Errorf("it says %+v", c.checks)
	}
}

func TestTheDoctorSaysWhatALostConnectionWouldMean(t *testing.T) {
	page := &api.Endpoint{App: "jupyter", Scheme: "https", Host: "cn01", Port: 8888}
	for want, tt := range map[string]struct {
		ends    error
		session api.Session
	}{
		"✓ shells, editors and kernels inside the job would continue":                                                     {nil, api.Session{Endpoint: page, Websockets: &api.Websockets{Continue: true}}},
		"✓ shells and editors inside the job would continue; WebSockets of the page would end":                            {nil, api.Session{Endpoint: page}},
		"? kernels and terminals of the page would have to reconnect: only one session at a time":                         {nil, api.Session{Endpoint: page, Websockets: &api.Websockets{Why: "only one session at a time"}}},
		"? shells and editors inside the job, and kernels of the page, would end: the node has no python3 (3.6 or newer)": {errors.New("the node has no python3 (3.6 or newer)"), api.Session{Host: "narval"}},
	} {
		c := &checkup{}
		c.lostConnection(tt.ends, tt.session)
		mark := map[api.CheckResult]string{api.CheckOK: "✓ ", api.CheckUnknown: "? "}
		if got := c.checks[0]; len(c.checks) != 1 || mark[got.Result]+got.Text != want || strings.HasPrefix(want, "?") != (got.Fix != "") {
			t.Errorf("it says %+v, want %q", c.checks, want)
		}
	}
}
