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

func TestATokenIsWhereThePageExpectsIt(t *testing.T) {
	for want, e := range map[string]Endpoint{
		"http://localhost:8888/lab?token=s%263":                                    {App: "jupyter", Path: "/lab", Token: NewSecret("s&3")},
		"http://localhost:8888/?tkn=s3":                                            {App: "code-server", Token: NewSecret("s3")},
		"http://localhost:8888/#form-password=s3":                                  {App: "code-server", Token: NewSecret("s3"), Form: true},
		"http://localhost:8888/vnc.html?autoconnect=1&resize=remote#password=s-_3": {App: "novnc", Path: "/vnc.html", Token: NewSecret("s-_3")},
		"http://localhost:8888/vnc.html":                                           {App: "novnc", Path: "/vnc.html"},
	} {
		if got := e.PageURLWithToken("localhost:8888"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestOnlyAPasswordForAFormIsCutOff(t *testing.T) {
	for address, want := range map[string][2]string{
		"http://localhost:8888/#form-password=s3":                  {"http://localhost:8888/", "s3"},
		"http://localhost:8888/vnc.html?autoconnect=1#password=s3": {"http://localhost:8888/vnc.html?autoconnect=1#password=s3", ""},
		"http://localhost:8888/lab?token=s3#x":                     {"http://localhost:8888/lab?token=s3#x", ""},
		"http://localhost:8888/":                                   {"http://localhost:8888/", ""},
	} {
		if page, password := CutPassword(address); page != want[0] || password.Reveal() != want[1] {
			t.Errorf("%s: got %s and %q", address, page, password.Reveal())
		}
	}
}
