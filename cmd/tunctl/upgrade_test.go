package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func TestAnAgentOfAnotherVersionIsToldOf(t *testing.T) {
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
