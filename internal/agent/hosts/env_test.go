package hosts

import (
	"fmt"
	"testing"

	"tunctl/internal/api"
)

func TestAFewEnvironmentsAreRememberedEachAgentOnce(t *testing.T) {
	a := &envs{}
	if a.newest() != nil || len(a.earlier()) != 0 {
		t.Errorf("before any client: %v, %v", a.newest(), a.earlier())
	}
	client := func(agent, path string) { a.use(api.Env{"SSH_AUTH_SOCK": agent, "PATH": path}) }
	client("desktop", "/1")
	client("tmux", "/2")
	client("desktop", "/3")
	a.use(nil) // a client that sends none
	if newest := a.newest(); newest["PATH"] != "/3" {
		t.Errorf("the newest is %v", newest)
	}
	if earlier := a.earlier(); len(earlier) != 1 || earlier[0]["PATH"] != "/2" {
		t.Errorf("before it: %v", earlier)
	}
	for i := range 20 {
		client(fmt.Sprint("agent", i), "/")
	}
	if earlier := a.earlier(); len(earlier) != maxEnvs-1 || earlier[0]["SSH_AUTH_SOCK"] != "agent18" || a.newest()["SSH_AUTH_SOCK"] != "agent19" {
		t.Errorf("after many: %v", earlier)
	}
}
