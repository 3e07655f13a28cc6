package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
)

func TestOutput(t *testing.T) {
	t.Run("without a connection", func(t *testing.T) {
		dir := t.TempDir()
		t.Setenv("TUNCTL_HOME", dir)
		t.Setenv("TUNCTL_CONFIG", "")
		mux := http.NewServeMux()
		localapi.HandleAt(mux, api.CallStatus, func(*http.Request, api.None) (api.Status, error) {
			cells := api.Cells{Running: 2, Waiting: 1, Finished: 3}
			return api.Status{Version: api.Version, Agent: &api.Agent{Version: version()}, Sessions: []api.Session{{Name: "nb", Host: "narval", Cells: cells}}}, nil
		})
		localapi.HandleAt(mux, api.CallStream, func(*http.Request, api.StreamRequest) (api.None, error) {
			return api.None{}, api.Errorf(api.CodeNeedsPerson, "narval needs a login").WithHint("`tunctl login narval`")
		})
		serveAgent(t, home.In(dir), mux)
		var out, said bytes.Buffer
		err := runApp(t.Context(), newApp(strings.NewReader(""), &out, &said), []string{"tunctl", "output"})
		if exitCode(err) != exitNeedsPerson || hintOf(err) != "`tunctl login narval`" {
			t.Errorf("ends with %v", err)
		}
		if want := "nb, as last seen: 3 cells finished while the page was closed, 1 cell running without the page, 1 cell waiting for input"; !strings.HasPrefix(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	})
}
