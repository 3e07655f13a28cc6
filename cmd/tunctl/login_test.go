package main

import (
	"context"
	"io"
	"net/http"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
	"tunctl/internal/term"
)

func TestLoginAgentEnds(t *testing.T) {
	p := home.In(t.TempDir())
	asked := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, _ *http.Request) {
		_ = localapi.NewLines(w).Send(api.Event{Type: api.EventStatus, Status: &api.Status{}})
		<-asked
	})
	localapi.Handle(mux, api.CallLogin, func(_ context.Context, req api.LoginRequest) (api.Host, error) {
		close(asked)
		return api.Host{Alias: req.Host, State: api.HostConnecting}, nil
	})
	serveAgent(t, p, mux)
	inv := &invocation{Terminal: term.New(nil, io.Discard, io.Discard), paths: p, client: client.New(p)}
	if err := inv.authenticate(t.Context(), "narval", api.KeepNot); !api.HasCode(err, api.CodeAgent) {
		t.Errorf("a login that the agent's end cut off: %v", err)
	}
}
