//go:build unix

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"tunctl/internal/dev/ptytest"
)

// TestMCPApproval has the program at both ends: `tunctl mcp`
// for an assistant, and `tunctl mcp approve` in a terminal.
func TestMCPApproval(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.setConfig(sandboxConfig + "[mcp]\nnode_hours = 8\n")
	person := ptytest.Start(t, s.command("mcp", "approve"))
	person.Expect("waiting for what assistants ask for")

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	assistant, err := sdk.NewClient(&sdk.Implementation{Name: "clippy", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: s.command("mcp"), TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		text   string
		failed bool
		err    error
	}
	call := func(tool string, args any) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			res, err := assistant.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
			if err != nil {
				done <- answer{err: err}
				return
			}
			done <- answer{text: res.Content[0].(*sdk.TextContent).Text, failed: res.IsError}
		}()
		return done
	}

	started := call("up", map[string]any{"session": "jupyter"})
	person.Expect(`The assistant that calls itself "clippy" asks to start session jupyter on practice.`)
	person.Reply("Type yes to continue, no to stop: ", "yes")
	if a := <-started; a.err != nil || a.failed || !strings.Contains(a.text, `"name":"jupyter"`) {
		t.Fatalf("up: %+v", a)
	}
	s.run("up", "--no-open", "jupyter") // the user waits for the same job
	ended := call("down", map[string]any{"session": "jupyter", "cancel": true})
	person.Expect("END ITS JOB")
	person.Reply("Type yes to continue, no to stop: ", "n")
	if a := <-ended; a.err != nil || !a.failed || !strings.Contains(a.text, "did not allow it") {
		t.Fatalf("down: %+v", a)
	}
	if a := <-call("status", nil); a.err != nil || a.failed || !strings.Contains(a.text, `"state":"ready"`) {
		t.Errorf("status: %+v", a)
	}
	if n := len(s.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if err := assistant.Close(); err != nil { // its program must end by itself
		t.Error(err)
	}
	person.Type("\x03")
	person.WantEnd(exitInterrupted)
}
