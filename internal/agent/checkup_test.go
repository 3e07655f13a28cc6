package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func TestCheckup(t *testing.T) {
	t.Run("does not say that a server for one client responds", func(t *testing.T) {
		a := newAgent(t, "[session.jupyter]\nhost = \"narval\"\nsubmit = \"~/jupyter.sh\"\n")
		s, err := a.Sessions.Find("jupyter")
		must(t, err)
		c := &checkup{agent: a.Parts, session: s, host: a.Hosts.Pool.Host("narval")}
		c.page(t.Context(), facts.Facts{Endpoint: &api.Endpoint{App: "paraview", Scheme: "cs", Host: "cn01", Port: 11111, Reach: api.ReachLogin}})
		if len(c.checks) != 1 || c.checks[0].Result != api.CheckUnknown {
			t.Errorf("it says %+v", c.checks)
		}
	})
	t.Run("says what a lost connection would mean", func(t *testing.T) {
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
	})
}

func TestCheckupCells(t *testing.T) {
	c := &checkup{}
	c.cells("")
	c.cells("jupyter-server-documents")
	if len(c.checks) != 1 || c.checks[0].Result != api.CheckUnknown || !strings.HasPrefix(c.checks[0].Text, "nothing that cells print is collected, since the server itself runs them (jupyter-server-documents)") {
		t.Errorf("it says %+v", c.checks)
	}
}

// newAgent is an agent that never serves, with a config.
func newAgent(t *testing.T, config string) *Agent {
	t.Helper()
	dir := t.TempDir()
	paths := home.Paths{Config: filepath.Join(dir, "config.toml"), State: dir, Socket: filepath.Join(dir, "s")}
	must(t, os.WriteFile(paths.Config, []byte(config), 0o600))
	a, err := New(Options{Paths: paths, Limits: session.DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
