package main

import (
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func TestStatusAndHostsSayThatALiveConnectionsSettingsChanged(t *testing.T) {
	live := api.Host{Alias: "narval", User: "alice", Hostname: "one", Port: 22, State: api.HostUp, Outdated: "the settings of narval changed"}
	now := api.Host{Alias: "narval", User: "alice", Hostname: "two", Port: 22}
	for name, c := range map[string]struct {
		print func(*term.Terminal) error
		want  string
	}{
		"status": {
			func(t *term.Terminal) error {
				return printStatus(t, api.Status{Agent: &api.Agent{}, Hosts: []api.Host{live}, Sessions: []api.Session{{Name: "jupyter", Host: "narval"}}}, false)
			},
			"warning: narval: the settings of narval changed",
		},
		"hosts": {
			func(t *term.Terminal) error { return printHosts(t, []api.Host{withState(now, live)}, true) },
			"warning: narval: connected to alice@one:22, but the settings now say alice@two:22",
		},
		"hosts, by other settings of the same account": {
			func(t *term.Terminal) error { return printHosts(t, []api.Host{withState(live, live)}, true) },
			"warning: narval: the settings of narval changed",
		},
	} {
		var said strings.Builder
		if err := c.print(&term.Terminal{Out: &strings.Builder{}, Err: &said}); err != nil || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: %q %v", name, said.String(), err)
		}
	}
}
