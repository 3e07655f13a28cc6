package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/term"
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

func TestAgentOtherVersion(t *testing.T) {
	for running, says := range map[string]string{
		version(): "",
		"v0.9.0":  "the running agent is version v0.9.0, this program is version " + version() + "; `tunctl agent restart` updates the agent",
	} {
		var said bytes.Buffer
		warnAboutVersion(term.New(nil, io.Discard, &said), api.Status{Agent: &api.Agent{Version: running}})
		if !strings.Contains(said.String(), says) || says == "" && said.Len() > 0 {
			t.Errorf("version %s: said %q, want %q", running, said.String(), says)
		}
	}
}
