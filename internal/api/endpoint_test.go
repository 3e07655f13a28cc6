package api

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAnotherPageHasATitleForPeople(t *testing.T) {
	for want, e := range map[string]NamedEndpoint{
		"Dask dashboard": {Name: "dask", Endpoint: Endpoint{App: "dask"}},
		"Jupyter 2":      {Name: "jupyter-2", Endpoint: Endpoint{App: "jupyter"}},
		"code-server 3":  {Name: "code-server-3", Endpoint: Endpoint{App: "code-server"}},
		"mytool":         {Name: "mytool", Endpoint: Endpoint{App: "mytool"}},
	} {
		if got := e.Title(); got != want {
			t.Errorf("%s is called %q, want %q", e.Name, got, want)
		}
	}
}

func TestAnotherPageTravelsWithoutItsToken(t *testing.T) {
	text, err := json.Marshal(NamedEndpoint{Name: "dask", Endpoint: Endpoint{App: "dask", Host: "n003", Port: 8787, Token: NewSecret("s3cr3t")}})
	if want := `{"name":"dask","app":"dask","host":"n003","port":8787}`; err != nil || string(text) != want || strings.Contains(string(text), "s3cr3t") {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}
