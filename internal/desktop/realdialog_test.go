//go:build linux

package desktop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/desktop"
	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/real"
)

func TestAskInARealWindow(t *testing.T) {
	real.Need(t, "desktop")
	d := desktest.New(t)
	for _, kv := range d.Env {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	const fingerprint = "SHA256:4lTfxaV9_xBqWn0yM1w5Zr2u3S6hJkLpQeRtYvXcDg8"
	for _, tt := range []struct {
		name string
		desktop.Question
		typed, key string
		want       string
		err        error
	}{
		{
			"dialog-password",
			desktop.Question{Title: "Log in to narval", Text: "alice_b@narval's password:"},
			"s3 cr_et", "Return", "s3 cr_et", nil,
		},
		{
			"dialog-code",
			desktop.Question{
				Title: "Log in to narval", Kind: desktop.AskLine,
				Text: "Duo two-factor login for alice\n\n 1. Duo Push to <your> phone & tablet\n 2. Passcode\n\nPasscode or option (1-2):",
			},
			"", "Escape", "", desktop.ErrCancelled,
		},
		{
			"dialog-hostkey",
			desktop.Question{
				Title: "Is this really narval?", Kind: desktop.AskChoice, Yes: "Yes, trust it", No: "No, stop",
				Text: "The authenticity of narval can't be established. Its ED25519 key fingerprint is\n\n" + fingerprint +
					"\n\nCompare it with what your computing centre publishes. If it differs, somebody may be in between: stop.",
			},
			"", "Return", "", desktop.ErrCancelled, // Enter alone trusts nobody
		},
		{
			"dialog-link",
			desktop.Question{
				Title: "Log in to rorqual", Kind: desktop.AskLine, Value: "https://login.example.org/device?user_code=WDJB-MJHT",
				Text: "The login has a link. Copy it into your browser:\n\nhttps://login.example.org/device?user_code=WDJB-MJHT",
			},
			"", "Return", "", nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			type result struct {
				text string
				err  error
			}
			done := make(chan result, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			go func() {
				text, err := desktop.Ask(ctx, tt.Question)
				done <- result{text, err}
			}()
			d.Window(tt.name, tt.Title).Answer(tt.typed, tt.key)
			got := <-done
			if got.text != tt.want || !errors.Is(got.err, tt.err) {
				t.Errorf("got %q, %v", got.text, got.err)
			}
		})
	}
}
