//go:build unix

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/home"
)

func TestCtrlCEndsACommandThatWaitsForTheAgent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	asked := make(chan struct{})
	serveAgent(t, home.In(dir), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	cmd := exec.Command(program, "extend", "jupyter", "1h")
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+dir, "TUNCTL_CONFIG=")
	k := ptytest.Start(t, cmd)
	<-asked
	k.Type("\x03")
	k.WantEnd(exitInterrupted)
}

func TestFindPaths(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	t.Setenv("TUNCTL_CONFIG", "/elsewhere.toml")
	for chosen, want := range map[string]string{"": "/elsewhere.toml", "/other.toml": "/other.toml"} {
		if p, err := findPaths(chosen); err != nil || p.Config != want || !p.Chosen {
			t.Errorf("%q leads to %+v, %v", chosen, p, err)
		}
	}
}
