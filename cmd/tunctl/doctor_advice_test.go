package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func TestALoginThatCannotReachTheHostGivesTheAdviceOfItsSite(t *testing.T) {
	p := home.In(t.TempDir())
	folder := configs.SitesFolder(p.Config)
	site := "title = \"Behind a VPN\"\nbefore = \"Connect to the VPN.\"\n[entrance.one]\nhost = \"127.0.0.1\"\nport = 1\n"
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(p.Config, []byte("[host.vpn]\nssh = \"127.0.0.1\"\nsite = \"behind\"\n"), 0o600),
		os.WriteFile(filepath.Join(folder, "behind.toml"), []byte(site), 0o600)); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[api.Code]string{api.CodeUnreachable: "Connect to the VPN.", api.CodeAuth: "another key"} {
		err := withSiteAdvice(t.Context(), p, "vpn", &api.Error{Code: code, Message: "127.0.0.1:1 refused the connection", Hint: "another key"})
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Hint != want {
			t.Errorf("%s: %#v", code, err)
		}
	}
}
