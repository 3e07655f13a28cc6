//go:build linux

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/term"
)

func TestPromptElsewhere(t *testing.T) {
	screen := ptytest.NewTerminal(t)
	terminal := term.New(screen.TTY, screen.TTY, screen.TTY)
	asking := api.Host{Alias: "narval", State: api.HostConnecting, Asking: api.PromptPassword}
	other := &promptReader{term: terminal, host: "narval"}
	other.sayElsewhere(asking)
	other.sayElsewhere(asking) // once
	screen.Expect("narval: waiting for the login in another window\r\n")

	ctx, cancel := context.WithCancel(t.Context())
	q := &promptReader{term: terminal, client: client.New(startFakeAgent(t).paths), host: "narval"}
	if !q.handle(ctx, api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{ID: "1", Host: "narval", Kind: api.PromptPassword, Text: "password:"}}) {
		t.Error("a prompt is passed on")
	}
	q.sayElsewhere(asking)
	session := api.Session{Name: "jupyter", Cause: api.AskedElsewhere}
	q.handle(ctx, api.Event{Type: api.EventSession, Session: &session})
	if got := screen.Expect("password: "); strings.Contains(got, "another window") || session.Cause != "" {
		t.Errorf("who is asked is told %q, %q", got, session.Cause)
	}
	q.handle(ctx, api.Event{Type: api.EventPromptClosed, Prompt: &api.Prompt{ID: "1"}})
	q.asking.Wait() // the question is gone without a key
	cancel()
}

func TestPromptLink(t *testing.T) {
	const link = "https://iam.example.org/device"
	for text, want := range map[string]struct{ said, question string }{
		"Open " + link:                      {"narval: Open " + link + "\n", doneThere},
		"Open " + link + "\nThen the code:": {"narval: Open " + link + "\n", "Then the code:"},
		"Passcode:":                         {"", "Passcode:"},
	} {
		var said bytes.Buffer
		p := api.Prompt{Host: "narval", Kind: api.PromptQuestion, Text: text, Links: []string{link}}
		if got := sayFirstLines(term.New(nil, nil, &said), p); got != want.question || said.String() != want.said {
			t.Errorf("%q: said %q, asks %q", text, said.String(), got)
		}
	}
	page := api.Prompt{Host: "narval", Kind: api.PromptPage, Text: "Log in at " + link, Links: []string{link}}
	if got := sayFirstLines(term.New(nil, nil, new(bytes.Buffer)), page); got != doneThere {
		t.Errorf("a page asks %q", got)
	}
}
