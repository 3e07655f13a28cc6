package agent

import (
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
