package main

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func TestDestinationMistyped(t *testing.T) {
	p := home.In(t.TempDir())
	writeFiles(t, filepath.Dir(p.Config), map[string]string{"config.toml": "[session.jupyter]\nhost = 'narval'\nsubmit = '~/jupyter.sh'\n"})
	inv := &invocation{paths: p}
	unknown := &api.Error{Code: api.CodeUnknownHost, Message: "no host", Hint: "`tunctl hosts` lists the hosts"}
	for name, want := range map[string]string{
		"jupiter": "did you mean the session jupyter?", "jupiter.tun": "did you mean the session jupyter?",
		"elsewhere": unknown.Hint,
		"narval":    unknown.Hint, // a host of the config
	} {
		if e, ok := errors.AsType[*api.Error](inv.withNearSession(name, unknown)); !ok || e.Hint != want || e.Message != unknown.Message {
			t.Errorf("%s: %+v, want the hint %q", name, e, want)
		}
	}
	refused := &api.Error{Code: api.CodeAuth, Hint: "check the key"}
	if err := inv.withNearSession("jupiter", refused); !errors.Is(err, refused) {
		t.Errorf("another error becomes %v", err)
	}
}

func TestDestination(t *testing.T) {
	cfg := &configs.Config{
		Hosts: []configs.Host{{Name: "narval"}, {Name: "same"}},
		Sessions: []configs.Session{
			{Name: "jupyter", Host: "narval", Submit: "~/jupyter.sh"},
			{Name: "adopted", Host: "narval", Job: "lab"},
			{Name: "ports", Host: "narval"},
			{Name: "same", Host: "narval", Submit: "~/jupyter.sh"},
		},
	}
	st := api.Status{Sessions: []api.Session{{Name: "narval-48213", Host: "narval"}}}
	for name, want := range map[string]api.StreamRequest{
		"narval":           {Host: "narval"},
		"narval.tun":       {Host: "narval"},
		"nc10214.narval":   {Host: "narval", Node: "nc10214"},
		"jupyter":          {Host: "narval", Session: "jupyter"},
		"jupyter.tun":      {Host: "narval", Session: "jupyter"},
		"1.jupyter.tun":    {Host: "narval", Session: "jupyter", Node: "1"},
		"nc7.adopted":      {Host: "narval", Session: "adopted", Node: "nc7"},
		"ports":            {Host: "narval"}, // it has no job
		"same":             {Host: "same"},   // the host has priority
		"narval-48213":     {Host: "narval", Session: "narval-48213"},
		"alias":            {Host: "alias"}, // of ~/.ssh/config
		"login.example.eu": {Host: "login.example.eu"},
	} {
		if got := parseDestination(cfg, st, name); got.Host != want.Host || got.Session != want.Session || got.Node != want.Node {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
}

func TestAHostsRefusalCannotSteerTheTerminal(t *testing.T) {
	err := exitOf("narval", &ssh.OpenChannelError{Reason: ssh.Prohibited, Message: "no \x1b]0;owned\x07\x1b[2Jshells"})
	if want := "narval: no shells"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}
