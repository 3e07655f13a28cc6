package session

import (
	"testing"

	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
)

func TestTheWayToAServerForOneClientIsNotRememberedAsOneThatWorks(t *testing.T) {
	s := quietSession(t)
	for _, e := range []struct {
		scheme string
		reach  api.Reach
		want   api.Reach
	}{{"cs", api.ReachLogin, ""}, {"http", api.ReachNode, api.ReachNode}, {"cs", api.ReachLogin, api.ReachNode}} {
		followed{s}.OpenPage(&probe.Route{Endpoint: api.Endpoint{Scheme: e.scheme, Host: "cn01", Port: 11111, Reach: e.reach}})
		if got := s.parts.Store.Session(s.Name).Reach; got != e.want {
			t.Errorf("after %s by %s: %q is remembered, want %q", e.scheme, e.reach, got, e.want)
		}
	}
}

func TestTheLoginOfAPageHasNothingForTheTerminal(t *testing.T) {
	ep := api.Endpoint{App: "rstudio", Scheme: "http", Host: "cn01", Port: 8787, User: "ann\x1b[2J", Password: api.NewSecret("Zm9v\x1b]0;x\x07YmFy")}
	if page := pageAt(ep, "localhost:8787"); page.User != "ann" || page.Password != "Zm9vYmFy" {
		t.Errorf("the login is %q with %q", page.User, page.Password)
	}
}

func TestTheDesktopInAPageGetsItsPasswordBehindTheAddress(t *testing.T) {
	ep := api.Endpoint{App: "novnc", Scheme: "http", Host: "cn01", Port: 12345, Path: "/vnc.html", Token: api.NewSecret("AbCd1234")}
	if got, want := pageAt(ep, "localhost:8888").URL, "http://localhost:8888/vnc.html?autoconnect=1&resize=remote#password=AbCd1234"; got != want {
		t.Errorf("the page is at %s, want %s", got, want)
	}
}
