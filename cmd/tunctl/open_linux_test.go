//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/dev/desktest"
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
	s := newSandbox(t)
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"browser": browserScript})
	browser := filepath.Join(dir, "browser")
	link := fetchLinks(t, browser)
	s.env = append(s.env, "BROWSER="+browser)
	o := desktest.WatchProcesses(t)
	s.run("up")
	select {
	case works := <-link: // once
		o.Await(works)
	case <-t.Context().Done():
		t.Fatal("no browser was started")
	}
	s.run("open")
	s.run("status", "--json")
	s.run("logs")
	page, err := url.Parse(strings.TrimSpace(s.run("open", "--print")))
	if err != nil {
		t.Fatal(err)
	}
	token := page.Query().Get("token")
	s.run("down", "--cancel")
	o.Await("agent")
	if words := o.Saw(token); token == "" || len(words) > 0 {
		t.Errorf("the token %q is in command lines: %q", token, words)
	}
}
