package agent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

// asked is the response of the agent to a GET, without a connection to any host.
func asked[T any](t *testing.T, a *Agent, path string) T {
	t.Helper()
	w := httptest.NewRecorder()
	a.routes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var out T
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return out
}

func TestKnownBalancesAskNothingOfAHost(t *testing.T) {
	a := quietSession(t).agent
	if got := asked[[]api.HostBalances](t, a, "/v1/balances"); got == nil || len(got) > 0 {
		t.Errorf("at first: %+v", got)
	}
	known := api.QuotaResponse{Site: "narval", At: time.Now().Add(-59 * time.Minute), Reports: []api.CommandReport{{Command: "quota -s"}}}
	a.setQuota("narval", known)
	a.store.SetBalances(api.HostBalances{Host: "narval", Balances: []api.Balance{{Name: "/home", Used: 1}}, At: known.At})
	if got := asked[[]api.HostBalances](t, a, "/v1/balances"); len(got) != 1 || got[0].Host != "narval" || got[0].Balances[0].Used != 1 {
		t.Errorf("the balances are %+v", got)
	}
	if got, err := a.handleQuota(t.Context(), api.QuotaRequest{Host: "narval"}); err != nil || !got.At.Equal(known.At) {
		t.Errorf("within the hour: %+v, %v", got, err)
	}
	if _, err := a.handleQuota(t.Context(), api.QuotaRequest{Host: "narval", Refresh: true}); err == nil {
		t.Error("a refresh was answered without a connection")
	}
	known.At = time.Now().Add(-61 * time.Minute)
	a.setQuota("narval", known)
	if _, err := a.handleQuota(t.Context(), api.QuotaRequest{Host: "narval"}); err == nil {
		t.Error("what is older than an hour was repeated")
	}
}

func TestQuotasAreAskedAgainWhenTheSiteHasChanged(t *testing.T) {
	a := quietSession(t).agent
	a.opt.Paths.Config = filepath.Join(t.TempDir(), "config.toml")
	file := filepath.Join(configs.SitesFolder(a.opt.Paths.Config), "mine.toml")
	site := func(reader string) {
		t.Helper()
		text := "title = \"Mine\"\nscheduler = \"slurm\"\nbalance = [\"quota -s\"]\n" + reader
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fromCache := func() bool {
		_, err := a.handleQuota(t.Context(), api.QuotaRequest{Host: "narval"})
		return err == nil // there is no connection to ask the host
	}
	site("")
	cfg, err := configs.Parse("config.toml", []byte("[host.narval]\nsite = \"mine\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	a.config = cfg
	if a.quotaCommands("narval") == "" {
		t.Fatal("the site is not known")
	}
	a.setQuota("narval", api.QuotaResponse{Site: "mine", At: time.Now()})
	if !fromCache() {
		t.Error("asked again within the hour")
	}
	site("[read.home]\ncommand = \"quota -s\"\npattern = '(?P<name>/home) (?P<used>\\d+) (?P<total>\\d+)'\nexample = \"/home 1 2\"\n")
	if fromCache() {
		t.Error("the answer for the old site was repeated")
	}
}

func TestTheHistoryIsToldWithItsSums(t *testing.T) {
	s := quietSession(t)
	if got := asked[api.HistoryResponse](t, s.agent, "/v1/history"); got.Runs == nil || got.Weeks == nil {
		t.Errorf("without runs: %+v", got)
	}
	start := time.Now().Add(-2 * time.Hour)
	s.recordRun(api.Job{ID: "7", State: api.JobFinished, Submitted: start, Start: start, End: start.Add(time.Hour)})
	got := asked[api.HistoryResponse](t, s.agent, "/v1/history")
	if len(got.Runs) != 1 || len(got.Weeks) != 1 || got.Weeks[0].Used != 3600 {
		t.Errorf("the history is %+v", got)
	}
}
