package probe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/detect"
)

func TestTheWaysToAnEndpointAreTriedInOrder(t *testing.T) {
	const login, node, here = api.ReachLogin, api.ReachNode, api.ReachHere
	for _, tt := range []struct {
		name      string
		in        Reaches
		announced api.Reach
		stuck     bool
		want      []api.Reach
	}{
		{"the login node first", Reaches{}, login, false, []api.Reach{login}},
		{"then the node, when that has not worked for a while", Reaches{}, login, true, []api.Reach{login, node}},
		{"the node at once, when it worked last time", Reaches{Last: node}, login, false, []api.Reach{login, node}},
		{"the node first for a loopback", Reaches{}, node, false, []api.Reach{node, login}},
		{"the login node first for a loopback that it reached", Reaches{Last: login}, node, false, []api.Reach{login, node}},
		{"a reverse tunnel is where it is", Reaches{Last: node}, here, true, []api.Reach{here}},
		{"the person's word is final", Reaches{Config: login}, node, true, []api.Reach{login}},
		{"auto is no word", Reaches{Config: api.ReachAuto}, login, false, []api.Reach{login}},
		{"the site's order", Reaches{Site: []api.Reach{node, login}}, login, false, []api.Reach{node, login}},
		{"a site with one way", Reaches{Site: []api.Reach{login}}, login, true, []api.Reach{login}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.order(tt.announced, tt.stuck); !slices.Equal(got, tt.want) {
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

// loginNode is a job whose login node dials nothing.
type loginNode struct{ Job }

func (loginNode) Host() Host             { return nil }
func (loginNode) SameAsHost(string) bool { return false }
func (loginNode) Reaches() Reaches       { return Reaches{} }

func (loginNode) DialNames(_ context.Context, announced, _ string, _ time.Time) []string {
	return []string{announced}
}

func TestARefusalByAServerForOneClientChangesNothing(t *testing.T) {
	p := New(Options{Job: loginNode{}, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	finding := detect.Finding{Found: true, Endpoint: api.Endpoint{App: "paraview", Scheme: "cs", Host: "cn01", Port: 11111, Reach: api.ReachLogin}}
	result := p.Prove(t.Context(), &Target{Finding: finding}, time.Now())
	if result.Route == nil {
		t.Fatal(result.Doing)
	}
	result.Route.Dialer.(*firstRoute).routes = []Route{{Dialer: &dialed{}, Endpoint: finding.Endpoint}}
	target := result.Route.Target()
	if _, err := target.Dialer.Dial(t.Context(), "tcp", target.Address); !errors.Is(err, api.ErrRefused) {
		t.Fatal(err)
	}
	if len(p.refused) > 0 {
		t.Error("the forward is opened again, and the session announced")
	}
}

func TestAServerThatRefusesOnItsNodeIsProbedElsewhereOnlyAfterAWhile(t *testing.T) {
	limits := DefaultLimits()
	limits.NodeGrace = time.Hour
	p := New(Options{Limits: limits})
	for _, test := range []struct {
		since time.Time
		tried []string
	}{
		{time.Now(), []string{"cn01:80", "127.0.0.1:80"}},
		{time.Now().Add(-2 * time.Hour), []string{"cn01:80", "127.0.0.1:80", "cn01:80"}},
	} {
		d := &dialed{}
		works, failed, err := p.try(t.Context(), []Route{
			{Dialer: d, Endpoint: api.Endpoint{Scheme: "http", Host: "cn01", Port: 80, Reach: api.ReachNode}},
			{Dialer: d, Endpoint: api.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: 80, Reach: api.ReachNode}},
			{Dialer: d, Endpoint: api.Endpoint{Scheme: "http", Host: "cn01", Port: 80, Reach: api.ReachLogin}},
		}, test.since)
		if works != nil || failed.Reach != api.ReachNode || !errors.Is(err, errNoListener) || !slices.Equal(d.tried, test.tried) {
			t.Errorf("tried %q, %+v, %v; want %q", d.tried, failed, err, test.tried)
		}
	}
}

func TestAServerForOneClientIsNotProbedAndThePersonsConnectionTriesTheRoutes(t *testing.T) {
	d := &dialed{open: "127.0.0.1:11111"}
	at := func(host string) Route {
		return Route{Dialer: d, Endpoint: api.Endpoint{App: "paraview", Scheme: "cs", Host: host, Port: 11111}}
	}
	routes := &firstRoute{[]Route{at("cn01"), at("127.0.0.1"), at("cn02")}}
	for _, r := range routes.routes {
		if err := r.probe(t.Context()); err != nil || len(d.tried) > 0 {
			t.Fatalf("the probe of %s: %v, connected to %q", r.Endpoint.Host, err, d.tried)
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

// extensions is what the page of JupyterLab says of an extension, and whether jupyter-collaboration's server runs cells.
func extensions(name, serverSide string) string {
	return `<script id="jupyter-config-data" type="application/json">{"disableRTC": false, "disabledExtensions": ["@jupyterlab/notebook-extension:cell-executor"],
		"federated_extensions": [{"extension": "./extension", "load": "static/remoteEntry.1bbce6a6038f179a7ef0.js", "name": "` + name + `", "style": "./style"}],
		"serverSideExecution": ` + serverSide + `}</script>`
}

func TestRouteRunsCells(t *testing.T) {
	for page, want := range map[string]string{
		extensions("@jupyter-ai-contrib/server-documents", `"true"`): "jupyter-server-documents",
		extensions("@jupyter/server-documents", `""`):                "jupyter-server-documents", // 0.1.0
		extensions("@datalayer/jupyter-server-nbmodel", "false"):     "jupyter-server-nbmodel",
		extensions("jupyter-server-nbmodel", "true"):                 "jupyter-server-nbmodel", // 0.1.1a2
		extensions("@jupyter/docprovider-extension", "true"):         "jupyter-collaboration",
		extensions("@jupyter/docprovider-extension", "false"):        "",
		extensions("@jupyter-widgets/jupyterlab-manager", `""`):      "",
	} {
		dial := dialerFunc(func(context.Context, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer func() { _ = there.Close() }()
				if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil && r.URL.Path == "/base/lab" {
					_, _ = io.WriteString(there, "HTTP/1.0 200 OK\r\n\r\n"+page)
				}
			}()
			return here, nil
		})
		r := Route{Endpoint: api.Endpoint{App: "jupyter", Scheme: "http", Host: "cn01", Port: 8888, Path: "/base/lab"}, Dialer: dial}
		if got := r.RunsCells(t.Context()); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
