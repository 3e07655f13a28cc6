package winetest

import (
	"context"
	"os"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
)

// TestAnswer is no test of its own: under Wine it is the user at the keyboard, who
// brings up the session of TUNCTL_SESSION and answers with TUNCTL_ANSWER. Wine has no
// terminal to type into here.
func TestAnswer(t *testing.T) {
	session := os.Getenv("TUNCTL_SESSION")
	if session == "" {
		t.Skip("it is run by the tests under Wine")
	}
	paths, err := home.Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := client.New(paths)
	ended := ""
	err = c.Watch(ctx, api.AnswersTerminal, "", func(e api.Event) {
		switch {
		case e.Type == api.EventPrompt && e.Prompt != nil && e.Prompt.Kind == api.PromptPassword:
			if err := c.Answer(ctx, e.Prompt.ID, api.Answer{Text: os.Getenv("TUNCTL_ANSWER")}); err != nil {
				t.Error(err)
			}
		case e.Status != nil:
			go func() { _, _ = c.Up(ctx, api.UpRequest{Session: session}) }()
		case e.Session != nil && (e.Session.State == api.SessionReady || e.Session.State == api.SessionFailed):
			ended = string(e.Session.State) + " " + e.Session.Cause
			cancel()
		}
	})
	if ended != string(api.SessionReady)+" " {
		t.Errorf("the session is %q, %v", ended, err)
	}
}
