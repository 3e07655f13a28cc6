//go:build linux

package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/desktop/desktest"
	"tunctl/internal/lab"
)

// TestMain's process plays the browser of the test below, when asked to: it fetches
// the last of its arguments.
func TestPlaysTheBrowser(t *testing.T) {
	if os.Getenv("TUNCTL_TEST_BROWSER") == "" {
		t.Skip("no test of its own")
	}
	res, err := http.Get(os.Args[len(os.Args)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v\n%s", res.Status, err, page)
	}
}

// The browser stays for a while, as browsers do.
const browserScript = "#!/bin/sh\n" + `"$TUNCTL_TEST_BROWSER" -test.run '^TestPlaysTheBrowser$' "$1" || exit 1` + "\nsleep 3\n"

func TestNoTokenIsInAProcessListing(t *testing.T) {
	dir := t.TempDir()
	cluster, err := lab.Start(lab.Options{Dir: filepath.Join(dir, "c"), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	home, browser := filepath.Join(dir, "h"), filepath.Join(dir, "browser")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(cluster.Home(), "jupyter.sh"): lab.JobScript(cluster.Dialect()),
		filepath.Join(home, "config.toml"):          "[session.jupyter]\nhost = \"" + cluster.Alias() + "\"\nsubmit = \"~/jupyter.sh\"\n",
		browser:                                     browserScript,
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG="+cluster.SSHConfig(),
		"BROWSER="+browser, "TUNCTL_TEST_BROWSER="+self, "SSH_AUTH_SOCK=", "NO_COLOR=1")
	t.Cleanup(func() {
		if err := endAgent(home); err != nil {
			t.Error(err)
		}
	})
	tunctl := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		var talk strings.Builder
		cmd.Stderr = &talk
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("tunctl %s: %v\n%s", strings.Join(args, " "), err, talk.String())
		}
		return string(out)
	}

	o := desktest.NewOnlooker(t)
	tunctl("up")
	o.Await("http://127.0.0.1:") // the link that works once
	tunctl("open")
	tunctl("status", "--json")
	tunctl("logs")
	page, err := url.Parse(strings.TrimSpace(tunctl("open", "--print")))
	if err != nil {
		t.Fatal(err)
	}
	token := page.Query().Get("token")
	tunctl("down", "--cancel")
	o.Await("agent")
	if words := o.Saw(token); token == "" || len(words) > 0 {
		t.Errorf("the token %q is in command lines: %q", token, words)
	}
}
