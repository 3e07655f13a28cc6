package agent

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/jobwatch/detect"
)

func TestTheWaysToAnEndpointAreTriedInOrder(t *testing.T) {
	const login, node, here = api.ReachLogin, api.ReachNode, api.ReachHere
	for _, tt := range []struct {
		name string
		in   reaches
		want []api.Reach
	}{
		{"the login node first", reaches{log: login}, []api.Reach{login}},
		{"then the node, when that has not worked for a while", reaches{log: login, stuck: true}, []api.Reach{login, node}},
		{"the node at once, when it worked last time", reaches{log: login, last: node}, []api.Reach{login, node}},
		{"the node first for a loopback", reaches{log: node}, []api.Reach{node, login}},
		{"the login node first for a loopback that it reached", reaches{log: node, last: login}, []api.Reach{login, node}},
		{"a reverse tunnel is where it is", reaches{log: here, last: node, stuck: true}, []api.Reach{here}},
		{"the person's word is final", reaches{config: login, log: node, stuck: true}, []api.Reach{login}},
		{"auto is no word", reaches{config: api.ReachAuto, log: login}, []api.Reach{login}},
		{"the site's order", reaches{site: []api.Reach{node, login}, log: login}, []api.Reach{node, login}},
		{"a site with one way", reaches{site: []api.Reach{login}, log: login, stuck: true}, []api.Reach{login}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.order(); !slices.Equal(got, tt.want) {
				t.Errorf("order = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAnAddressIsDialledWhereItMeansSomething(t *testing.T) {
	for announced, want := range map[string][]string{
		"localhost": {"127.0.0.1"}, "127.0.0.1": {"127.0.0.1"}, "::1": {"::1"}, "0.0.0.0": {"127.0.0.1"}, "": {"127.0.0.1"},
		"hostname": {"127.0.0.1"}, "cn01": {"cn01", "127.0.0.1"}, "10.1.2.3": {"10.1.2.3", "127.0.0.1"},
	} {
		if got := addressesOnNode(announced); !slices.Equal(got, want) {
			t.Errorf("addressesOnNode(%q) = %q, want %q", announced, got, want)
		}
	}
}

// dialed counts connections, and refuses all but those of one address.
type dialed struct {
	open  string
	tried []string
}

func (d *dialed) Dial(_ context.Context, _, address string) (net.Conn, error) {
	d.tried = append(d.tried, address)
	if address != d.open {
		return nil, api.ErrRefused
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

func TestTheDoctorDoesNotSayThatAServerForOneClientResponds(t *testing.T) {
	s := quietSession(t)
	c := &checkup{agent: s.agent, session: s, host: s.agent.pool.Host("narval")}
	c.page(t.Context(), facts.Facts{Endpoint: &api.Endpoint{App: "paraview", Scheme: "cs", Host: "cn01", Port: 11111, Reach: api.ReachLogin}})
	if len(c.checks) != 1 || c.checks[0].Result != api.CheckUnknown {
		t.Errorf("it says %+v", c.checks)
	}
}

func TestARefusalByAServerForOneClientChangesNothing(t *testing.T) {
	a := strictAgent(t, "")
	s, err := a.session("jupyter")
	if err != nil {
		t.Fatal(err)
	}
	p := newProber(s, newJobNodes(s, a.pool.Host("strict"), nil))
	finding := detect.Finding{Found: true, Endpoint: api.Endpoint{App: "paraview", Scheme: "cs", Host: "cn01", Port: 11111, Reach: api.ReachLogin}}
	result := p.prove(t.Context(), &probeTarget{finding: finding}, time.Now())
	if result.route == nil {
		t.Fatal(result.doing)
	}
	result.route.dialer.(*firstRoute).routes = []route{{dialer: &dialed{}, endpoint: finding.Endpoint}}
	target := result.route.target()
	if _, err := target.Dialer.Dial(t.Context(), "tcp", target.Address); !errors.Is(err, api.ErrRefused) {
		t.Fatal(err)
	}
	if len(p.refused) > 0 {
		t.Error("the forward is opened again, and the session announced")
	}
}

func TestTheWayToAServerForOneClientIsNotRememberedAsOneThatWorks(t *testing.T) {
	s := quietSession(t)
	for _, e := range []struct {
		scheme string
		reach  api.Reach
		want   api.Reach
	}{{"cs", api.ReachLogin, ""}, {"http", api.ReachNode, api.ReachNode}, {"cs", api.ReachLogin, api.ReachNode}} {
		s.openPage(&route{dialer: &dialed{}, endpoint: api.Endpoint{Scheme: e.scheme, Host: "cn01", Port: 11111, Reach: e.reach}})
		if got := s.agent.store.Session(s.name).Reach; got != e.want {
			t.Errorf("after %s by %s: %q is remembered, want %q", e.scheme, e.reach, got, e.want)
		}
	}
}

func TestAServerThatRefusesOnItsNodeIsProbedElsewhereOnlyAfterAWhile(t *testing.T) {
	s := quietSession(t)
	s.agent.limits.NodeGrace = time.Hour
	p := newProber(s, newJobNodes(s, nil, nil))
	for _, test := range []struct {
		since time.Time
		tried []string
	}{
		{time.Now(), []string{"cn01:80", "127.0.0.1:80"}},
		{time.Now().Add(-2 * time.Hour), []string{"cn01:80", "127.0.0.1:80", "cn01:80"}},
	} {
		d := &dialed{}
		works, failed, err := p.try(t.Context(), []route{
			{dialer: d, endpoint: api.Endpoint{Scheme: "http", Host: "cn01", Port: 80, Reach: api.ReachNode}},
			{dialer: d, endpoint: api.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: 80, Reach: api.ReachNode}},
			{dialer: d, endpoint: api.Endpoint{Scheme: "http", Host: "cn01", Port: 80, Reach: api.ReachLogin}},
		}, test.since)
		if works != nil || failed.Reach != api.ReachNode || !errors.Is(err, errNoListener) || !slices.Equal(d.tried, test.tried) {
			t.Errorf("tried %q, %+v, %v; want %q", d.tried, failed, err, test.tried)
		}
	}
}

func TestAServerForOneClientIsNotProbedAndThePersonsConnectionTriesTheRoutes(t *testing.T) {
	d := &dialed{open: "127.0.0.1:11111"}
	at := func(host string) route {
		return route{dialer: d, endpoint: api.Endpoint{App: "paraview", Scheme: "cs", Host: host, Port: 11111}}
	}
	routes := &firstRoute{[]route{at("cn01"), at("127.0.0.1"), at("cn02")}}
	for _, r := range routes.routes {
		if err := r.probe(t.Context()); err != nil || len(d.tried) > 0 {
			t.Fatalf("the probe of %s: %v, connected to %q", r.endpoint.Host, err, d.tried)
		}
	}
	conn, err := routes.Dial(t.Context(), "tcp", "cn01:11111")
	if want := []string{"cn01:11111", "127.0.0.1:11111"}; err != nil || !slices.Equal(d.tried, want) {
		t.Fatalf("connected to %q, %v; want %q", d.tried, err, want)
	}
	_ = conn.Close()
	d.open = ""
	if _, err := routes.Dial(t.Context(), "tcp", "cn01:11111"); !errors.Is(err, api.ErrRefused) {
		t.Errorf("nobody listens: %v", err)
	}
}
