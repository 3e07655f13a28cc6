package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

// asked is the response of the agent to a GET, without a connection to any host.
func asked[T any](t *testing.T, a *Agent, path string) T {
	t.Helper()
	w := httptest.NewRecorder()
	a.server.routes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var out T
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return out
}

func TestBalances(t *testing.T) {
	a := newAgent(t, "")
	if got := asked[[]api.HostBalances](t, a, "/v1/balances"); got == nil || len(got) > 0 {
		t.Errorf("at first: %+v", got)
	}
	a.Store.SetBalances(api.HostBalances{Host: "narval", Balances: []api.Balance{{Name: "/home", Used: 1}}, At: time.Now()})
	if got := asked[[]api.HostBalances](t, a, "/v1/balances"); len(got) != 1 || got[0].Host != "narval" || got[0].Balances[0].Used != 1 {
		t.Errorf("the balances are %+v", got)
	}
}

func TestHistory(t *testing.T) {
	t.Run("has its sums", func(t *testing.T) {
		a := newAgent(t, "[session.jupyter]\nhost = \"narval\"\nsubmit = \"~/jupyter.sh\"\n")
		if got := asked[api.HistoryResponse](t, a, "/v1/history"); got.Runs == nil || got.Weeks == nil {
			t.Errorf("without runs: %+v", got)
		}
		a.Hosts.Start(t.Context(), &a.Work)
		t.Cleanup(a.Work.Wait)
		start := time.Now().Add(-2 * time.Hour)
		s, err := a.Sessions.Find("jupyter")
		must(t, err)
		s.Jobs.RecordRun(api.Job{ID: "7", State: api.JobFinished, Submitted: start, Start: start, End: start.Add(time.Hour)})
		got := asked[api.HistoryResponse](t, a, "/v1/history")
		if len(got.Runs) != 1 || len(got.Weeks) != 1 || got.Weeks[0].Used != 3600 {
			t.Errorf("the history is %+v", got)
		}
	})
	onModel(t, "has the runs of a section that comes back", func(m *model, l *modelLaptop) {
		t := m.t
		l.mustUp()
		l.section = false
		l.reload()
		l.crash()
		l.login()
		l.section = true
		l.reload()
		if s := l.status(); s.App != configs.ShellApp || s.Job == nil {
			t.Errorf("its section is back, and it is shown as %+v", s)
		}
		l.up()
		m.sleep(2 * time.Minute)
		m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil)
		m.sleep(3 * time.Minute)
		if runs, err := l.agent.History.Runs(); err != nil || len(runs) != 1 {
			t.Errorf("%+v, %v", runs, err)
		}
	})
}
