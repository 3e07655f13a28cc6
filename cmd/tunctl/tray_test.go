package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"tunctl/internal/home"
)

func TestNotificationsFollowTheConfig(t *testing.T) {
	p := home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	wanted := notifyFilter(p, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		name, config        string
		ready, ended, other bool
	}{
		{"without a config", "", true, true, true},
		{"off", "notify = false", false, false, false},
		{"with a mistake, as before", "notify = 7", false, false, false},
		{"some", `notify = ["ready"]`, true, false, true},
		{"on", "notify = true", true, true, true},
	} {
		if tt.config != "" {
			if err := os.WriteFile(p.Config, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for kind, want := range map[string]bool{"ready": tt.ready, "ended": tt.ended, "": tt.other} {
			if got := wanted(kind); got != want {
				t.Errorf("%s: %q is wanted: %v, want %v", tt.name, kind, got, want)
			}
		}
	}
}
