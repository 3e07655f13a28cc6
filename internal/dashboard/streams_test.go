package dashboard

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestEventTitles(t *testing.T) {
	s := api.Session{Name: "jupyter", Endpoints: []api.NamedEndpoint{{Name: "dask", Endpoint: api.Endpoint{App: "dask", Token: api.NewSecret("s3cr3t")}}}}
	for _, e := range []api.Event{
		{Type: api.EventStatus, Status: &api.Status{Sessions: []api.Session{s}}},
		{Type: api.EventSession, Session: &s},
	} {
		text, err := json.Marshal(newEvent(e, time.Now()))
		if err != nil || !strings.Contains(string(text), `"titles":{"dask":"Dask dashboard"}`) || strings.Contains(string(text), "s3cr3t") {
			t.Errorf("%s, %v", text, err)
		}
	}
}
