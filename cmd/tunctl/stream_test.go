package main

import (
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
)

func TestADestinationIsAHostASessionOrANodeOfEither(t *testing.T) {
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
