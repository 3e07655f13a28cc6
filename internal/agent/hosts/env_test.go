package hosts

import (
	"fmt"
	"testing"

	"tunctl/internal/api"
)

func TestAFewEnvironmentsAreRememberedEachAgentOnce(t *testing.T) {
	a := &envs{}
	if all := a.all(); len(all) != 1 || all[0] != nil {
		t.Errorf("before any client: %v", all)
	}
	client := func(agent, path string) { a.use(api.Env{"SSH_AUTH_SOCK": agent, "PATH": path}) }
	client("desktop", "/1")
	client("tmux", "/2")
	client("desktop", "/3")
	a.use(nil) // a client that sends none
	if newest := a.all()[0]; newest["PATH"] != "/3" {
		t.Errorf("the newest is %v", newest)
	}
	if all := a.all(); len(all) != 2 || all[0]["PATH"] != "/3" || all[1]["PATH"] != "/2" {
		t.Errorf("all: %v", all)
	}
	for i := range 20 {
		client(fmt.Sprint("agent", i), "/")
	}
	if all := a.all(); len(all) != maxEnvs || all[0]["SSH_AUTH_SOCK"] != "agent19" || all[1]["SSH_AUTH_SOCK"] != "agent18" {
		t.Errorf("after many: %v", all)
	}
}
