package agent

import (
	"net/http"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// handleUsage streams what the jobs of all sessions use, or that of one: first the samples
// of the last hour, then each new one. While it runs, somebody looks. With known=1 it ends
// after the first part, and nobody looks.
func (a *server) handleUsage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("session")
	if name != "" {
		if _, err := a.Sessions.Find(name); err != nil {
			localapi.Fail(w, err)
			return
		}
	}
	known := r.URL.Query().Get("known") != ""
	var samples chan api.Usage
	if !known {
		samples = a.Usage.Subscribe(name)
		defer a.Usage.Unsubscribe(samples)
	}
	out := localapi.NewLines(w)
	sent := map[string]time.Time{} // by session, when the last sample was
	for _, s := range a.Sessions.Live() {
		if name != "" && name != s.Name {
			continue
		}
		for _, u := range s.Meter.Samples() {
			if out.Send(u) != nil {
				return
			}
			sent[s.Name] = u.Time
		}
	}
	if out.Flush() != nil || known { // the client knows now that the stream is open
		return
	}
	for {
		select {
		case u := <-samples:
			if u.Time.After(sent[u.Session]) && out.Send(u) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
