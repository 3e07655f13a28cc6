package main

import (
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"
	"tunctl/internal/home"
)

func TestBookmarkAfterRestart(t *testing.T) {
	s := newSandbox(t)
	bookmark := home.In(s.home).Dashboard
	if s.run("agent", "start"); bookmark() != "" {
		t.Errorf("nobody has opened the dashboard, and it is at %s", bookmark())
	}
	if page := s.run("dashboard", "--print"); !strings.HasPrefix(page, "http://") {
		t.Fatalf("the page is at %q", page)
	}
	answers := func() bool {
		resp, err := http.Get(bookmark())
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	wait.Until(t, "it answers", answers)
	s.run("agent", "stop")
	wait.Until(t, "it has ended with the agent", func() bool { return !answers() })
	s.run("agent", "start")
	wait.Until(t, "the agent's start brings it up", answers)
}
