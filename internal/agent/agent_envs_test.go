package agent

import (
	"fmt"
	"testing"

	"tunctl/internal/api"
)

func TestAFewEnvironmentsAreRememberedEachAgentOnce(t *testing.T) {
	a := &Agent{}
	if a.clientEnv() != nil || len(a.earlierEnvs()) != 0 {
		t.Errorf("before any client: %v, %v", a.clientEnv(), a.earlierEnvs())
	}
	client := func(agent, path string) { a.useEnv(api.Env{"SSH_AUTH_SOCK": agent, "PATH": path}) }
	client("desktop", "/1")
	client("tmux", "/2")
	client("desktop", "/3")
	a.useEnv(nil) // a client that sends none
	if newest := a.clientEnv(); newest["PATH"] != "/3" {
		t.Errorf("the newest is %v", newest)
	}
	if earlier := a.earlierEnvs(); len(earlier) != 1 || earlier[0]["PATH"] != "/2" {
		t.Errorf("before it: %v", earlier)
	}
	for i := range 20 {
		client(fmt.Sprint("agent", i), "/")
	}
	if earlier := a.earlierEnvs(); len(earlier) != maxEnvs-1 || earlier[0]["SSH_AUTH_SOCK"] != "agent18" || a.clientEnv()["SSH_AUTH_SOCK"] != "agent19" {
		t.Errorf("after many: %v", earlier)
	}
}
