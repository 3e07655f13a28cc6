//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/lab"
)

// browserScript is a browser that has the test fetch the page, and keeps running for a while,
// as browsers do.
const browserScript = "#!/bin/sh\necho \"$1\" >\"$0.links\"\nsleep 5\n"

// fetchLinks fetches the links that the browser gets, until the test ends, and passes on the
// first one.
func fetchLinks(t *testing.T, browser string) (first <-chan string) {
	t.Helper()
	if err := syscall.Mkfifo(browser+".links", 0o600); err != nil {
		t.Fatal(err)
	}
	links, err := os.OpenFile(browser+".links", os.O_RDWR, 0) // as a writer, too: it does not end with the first
	if err != nil {
		t.Fatal(err)
	}
	done, told := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(links); lines.Scan(); {
			select {
			case told <- lines.Text():
			default:
			}
			if err := fetch(lines.Text()); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		_ = links.Close()
		<-done
	})
	return told
}

func fetch(link string) error {
	res, err := http.Get(link)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %w\n%s", link, res.Status, err, page)
	}
	return nil
}

func TestNoTokenIsInAProcessListing(t *testing.T) {
	t.Parallel()
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
		if err := testprogram.Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	link := fetchLinks(t, browser)
	env := append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG="+cluster.SSHConfig(),
		"BROWSER="+browser, "SSH_AUTH_SOCK=", "NO_COLOR=1")
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

	o := desktest.WatchProcesses(t)
	tunctl("up")
	select {
	case works := <-link: // once
		o.Await(works)
	case <-t.Context().Done():
		t.Fatal("no browser was started")
	}
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
