package main

import (
	"testing"

	"tunctl/internal/api"
)

func TestEndingText(t *testing.T) {
	shell := api.OpenStream{Kind: api.StreamGateway, Host: "narval", Session: "jupyter"}
	for _, tt := range []struct {
		name  string
		agent *api.Agent
		want  string
	}{
		{"no agent", nil, ""},
		{"no streams", &api.Agent{}, ""},
		{
			"two shells and a copy", &api.Agent{Streams: []api.OpenStream{shell, {Kind: api.StreamSFTP, Host: "narval,nc10"}, shell}},
			"these end with the agent: copies on nc10 through narval (1), shells and editors on jupyter (2)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := endingText(tt.agent); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
