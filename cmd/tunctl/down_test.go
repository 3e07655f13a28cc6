package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
	"tunctl/internal/term"
)

// firstWrite closes a channel when something is written.
type firstWrite struct {
	strings.Builder
	once sync.Once
	done chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	defer f.once.Do(func() { close(f.done) })
	return f.Builder.Write(p)
}

func TestDown(t *testing.T) {
	t.Run("says what it waits for", func(t *testing.T) {
		p := home.In(t.TempDir())
		waits := api.Session{Name: "nb", State: api.SessionDown, Pending: true, Cause: "waiting up to 10 min"}
		said := &firstWrite{done: make(chan struct{})}
		mux := http.NewServeMux()
		mux.HandleFunc(string(api.CallWatch), func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				_ = json.NewEncoder(w).Encode(api.Event{Type: api.EventSession, Session: &waits})
			}
			_ = json.NewEncoder(w).Encode(api.Event{Type: api.EventStatus, Status: &api.Status{Sessions: []api.Session{waits}}})
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		localapi.HandleAt(mux, api.CallDown, func(*http.Request, api.DownRequest) (api.DownResponse, error) {
			<-said.done
			return api.DownResponse{}, nil
		})
		localapi.HandleAt(mux, api.CallStatus, func(*http.Request, api.None) (api.Status, error) { return api.Status{}, nil })
		serveAgent(t, p, mux)
		inv := &invocation{Terminal: &term.Terminal{Err: said}, client: client.New(p)}
		if _, err := sendDown(t.Context(), inv, api.DownRequest{Session: "nb", Cancel: true}); err != nil {
			t.Fatal(err)
		}
		if got := said.String(); strings.Count(got, waits.Cause) != 1 {
			t.Errorf("said %q", got)
		}
	})
}
