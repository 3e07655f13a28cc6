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

func TestNotInside(t *testing.T) {
	for want, forwards := range map[string][]api.Forward{
		"":                             {{}, {Endpoint: "board"}},
		"2 of jupyter did":             {{Direct: 2}, {Endpoint: "board"}},
		"1 of jupyter and 3 of board ": {{Direct: 1}, {Endpoint: "board", Direct: 3}},
	} {
		if got := notInside(forwards, "jupyter"); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestTheDoctorSaysWhatALostConnectionWouldMean(t *testing.T) {
	page := &api.Endpoint{App: "jupyter", Scheme: "https", Host: "cn01", Port: 8888}
	for want, tt := range map[string]struct {
		ends    error
		session api.Session
	}{
		"✓ after a lost connection shells, editors and kernels inside the job continue":                                                    {nil, api.Session{Endpoint: page, Websockets: &api.Websockets{Continue: true}}},
		"✓ after a lost connection shells and editors inside the job continue; WebSockets of the page end":                                 {nil, api.Session{Endpoint: page}},
		"? kernels and terminals of the page have to reconnect after a lost connection: only one session at a time":                        {nil, api.Session{Endpoint: page, Websockets: &api.Websockets{Why: "only one session at a time"}}},
		"? shells and editors inside the job, and kernels of the page, end with a lost connection: the node has no python3 (3.6 or newer)": {errors.New("the node has no python3 (3.6 or newer)"), api.Session{Host: "narval"}},
	} {
		c := &checkup{}
		c.lostConnection(tt.ends, tt.session)
		mark := map[api.CheckResult]string{api.CheckOK: "✓ ", api.CheckUnknown: "? "}
		if got := c.checks[0]; len(c.checks) != 1 || mark[got.Result]+got.Text != want || strings.HasPrefix(want, "?") != (got.Fix != "") {
			t.Errorf("it says %+v, want %q", c.checks, want)
		}
	}
}
