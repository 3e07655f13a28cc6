package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
)

func TestJobsOfTheOtherHosts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TUNCTL_HOME", dir)
	mux := http.NewServeMux()
	localapi.HandleAt(mux, api.CallStatus, func(*http.Request, api.None) (api.Status, error) {
		st := api.Status{Version: api.Version, Agent: &api.Agent{PID: os.Getpid(), Version: version()}}
		for _, name := range []string{"narval", "broken", "m3"} {
			st.Hosts = append(st.Hosts, api.Host{Alias: name, State: api.HostUp})
		}
		return st, nil
	})
	mux.HandleFunc("GET /v1/hosts/{host}/jobs", func(w http.ResponseWriter, r *http.Request) {
		host := r.PathValue("host")
		if host == "broken" {
			localapi.Fail(w, api.Errorf(api.CodeTimeout, "the scheduler does not respond"))
			return
		}
		localapi.Respond(w, api.JobsResponse{Jobs: []api.Job{{ID: "job of " + host}}})
	})
	serveAgent(t, home.In(dir), mux)
	var out, said bytes.Buffer
	code := runProgram([]string{"tunctl", "jobs", "--json"}, nil, &out, &said)
	var list []api.HostJob
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list) != 2 || list[0].ID != "job of narval" || list[1].Host != "m3" {
		t.Errorf("listed %s, %v", out.String(), err)
	}
	if code != exitTimeout || strings.Count(said.String(), "the scheduler does not respond") != 1 {
		t.Errorf("exit code %d, said %q", code, said.String())
	}
}
