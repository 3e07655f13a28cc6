package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/must"
	"tunctl/internal/home"
)

// launched is a launcher that runs the dashboard in this process; ended gets its result.
func launched(t *testing.T, o Options, ended chan<- error) client.Launcher {
	return func(context.Context) (<-chan error, error) {
		ctx := context.WithoutCancel(t.Context()) // it outlives the command
		go func() { ended <- Run(ctx, o) }()
		return nil, nil
	}
}

func TestProcess(t *testing.T) {
	watched, gone := make(chan struct{}, 3), make(chan struct{})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Event{Type: api.EventStatus, Status: &api.Status{}})
		_ = http.NewResponseController(w).Flush()
		watched <- struct{}{}
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	})
	var asked atomic.Int32
	routes.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) != 2 { // it has not returned yet, or is stopped
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Status{Agent: &api.Agent{}})
	})
	o := Options{Paths: home.In(t.TempDir()), Client: agentWith(t, routes)}
	must.Do(t, home.MakePrivate(o.Paths.State))
	ended := make(chan error, 2)
	p, err := Ensure(t.Context(), o.Paths, launched(t, o, ended))
	must.Do(t, err)
	second := make(chan error, 1)
	if again, err := launched(t, o, second)(t.Context()); again != nil || err != nil { // it waits for the end of the first
		t.Error(again, err)
	}
	none := func(context.Context) (<-chan error, error) { t.Error("a second process is started"); return nil, nil }
	if _, err := Ensure(t.Context(), o.Paths, none); err != nil {
		t.Error(err)
	}
	var opened []string
	link, err := p.Open(t.Context(), func(_ context.Context, url string) error {
		opened = append(opened, url)
		return get(url)
	})
	if err != nil || len(opened) != 1 || opened[0] != link.URL || link.Bookmark == "" {
		t.Errorf("opened %q, told %+v: %v", opened, link, err)
	}
	if status, bearer := enterAs(t, link.URL); status != http.StatusOK || bearer == "" {
		t.Errorf("the page that a command opened: %d, %q", status, bearer)
	}
	must.Do(t, o.Paths.SetRunning(home.Running{PID: 1}))
	<-watched
	gone <- struct{}{} // as an agent crashes: what says that it runs stays
	select {
	case <-watched: // after its return
	case err := <-ended:
		t.Fatalf("the dashboard does not wait for an agent that crashed: %v", err)
	}
	must.Do(t, o.Paths.ClearRunning())
	close(gone) // as one ends in order
	if err := errors.Join(<-ended, <-second); err != nil {
		t.Error(err)
	}
	if get(link.URL) == nil {
		t.Error("the dashboard outlives the agent")
	}
}
