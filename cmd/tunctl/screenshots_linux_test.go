package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// fixed are the parts of the terminal's picture that would differ from run to run, and
// what it has instead.
var fixed = []struct {
	part *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`(is ready until ).*(, on)`), "${1}16:05${2}"},
	{regexp.MustCompile(`\b(localhost):\d+`), "${1}:8888"},
	{regexp.MustCompile(`\bcn0\d`), "cn01"},
	{regexp.MustCompile(`\b(cn0\d):\d+`), "${1}:23817"},
	{regexp.MustCompile(`(connected to .*"c90">).*(</span>)`), "${1}1.2 s${2}"},
	{regexp.MustCompile(`(job \d+ jupyterlab .*"c90">).*(</span>)`), "${1}0.8 s${2}"},
	{regexp.MustCompile(`(started on .*"c90">).*(</span>)`), "${1}2 min 11 s${2}"},
	{regexp.MustCompile(`(responds on .*"c90">).*(</span>)`), "${1}4.6 s${2}"},
	{regexp.MustCompile(`. (waiting in the queue \(job \d+\))  .*(?s:.*)`), "⠹ ${1}  48 s\n  other jobs have a higher priority"},
	{regexp.MustCompile(`. (waiting for the .* to respond)  .*(?s:.*)`), "⠼ ${1}  2.1 s"},
	{regexp.MustCompile(`(?m)(^|~[#$] )tunctl: connecting to the job .*\n`), "${1}"}, // after a second, maybe behind the prompt
	{regexp.MustCompile(`(?m)^\S+@\S+:~[#$]`), "alice@cn01:~$$"},
}

// training is what runs inside the job. It waits until the laptop sleeps before it goes on.
const training = `#!/bin/sh
for epoch in 1 2 3; do echo "epoch $epoch: loss 0.$((90 / epoch))"; done
until [ -e asleep ]; do sleep 0.1; done
for epoch in 4 5 6 7 8; do echo "epoch $epoch: loss 0.$((90 / epoch))"; done
echo saved model.pt
touch trained
`

// TestMovingPicture: the picture of the README is a real run on the practice cluster, from the queue to a page and
// across a lost connection. Times and ports are fixed, so that it changes only with the program.
func TestMovingPicture(t *testing.T) {
	t.Parallel()
	s := newSandboxQueued(t, 5*time.Second)
	s.write(filepath.Join(s.cluster.Home(), "jupyter.sh"), strings.Replace(lab.JobScript(s.cluster.Dialect()), "\nPORT=", "\nsleep 5\nPORT=", 1))
	must.Do(t, testprogram.Write(filepath.Join(s.cluster.Home(), "train"), []byte(training)))
	for _, name := range []string{".bashrc", ".bash_profile", ".profile", ".zshrc"} { // that of this machine's system, of root, and of another shell is another one
		s.write(filepath.Join(s.cluster.Home(), name), "PS1='alice@cn01:~$ '\n")
	}
	browser := filepath.Join(t.TempDir(), "browser")
	must.Do(t, testprogram.Write(browser, []byte(browserScript)))
	fetchLinks(t, browser)
	tools := t.TempDir()
	must.Do(t, os.Symlink(program, filepath.Join(tools, "tunctl")))
	shell := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile")
	shell.Env = append(slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") }),
		"PS1=$ ", "TERM=xterm", "BROWSER="+browser, "DISPLAY=:none", "PATH="+tools+":"+os.Getenv("PATH"))
	k := ptytest.StartSized(t, shell, 80, 24)
	film := ptytest.NewFilm(20, 24*time.Second)
	scene := func(words, front string, lasts time.Duration) {
		t.Helper()
		k.ExpectScreen(words)
		screen := k.HTML()
		for _, f := range fixed {
			screen = f.part.ReplaceAllString(screen, f.text)
		}
		film.Scene(screen, front, lasts)
	}
	const second = time.Second
	scene("$", "", second)
	k.Type("tunctl up jupyter\n")
	scene("waiting in the queue", "", 3*second)
	scene("waiting for the", "", 2*second)
	scene("opened the page\n$", "", 2*second)
	page := pageText(t, strings.TrimSpace(s.run("open", "--print")))
	scene("opened the page\n$", film.Page("localhost:8888/lab", page[0], page[1]), 3*second)
	k.Type("tunctl ssh jupyter\n")
	scene("~$", "", second)
	k.Type("./train\n")
	k.Expect("epoch 3: loss 0.30")
	k.Expect("\n") // which may come later
	scene("epoch 3: loss", "", 2*second)
	must.Do(t, s.cluster.Refuse(true))
	s.cluster.DropAll()
	s.write(filepath.Join(s.cluster.Home(), "asleep"), "")
	scene("epoch 3: loss", film.Note("the lid is closed for 43 min; the job goes on"), 3*second)
	wait.Until(t, "the job has trained", func() bool {
		_, err := os.Stat(filepath.Join(s.cluster.Home(), "trained"))
		return err == nil
	})
	must.Do(t, s.cluster.Refuse(false))
	k.AwaitScreen("has no prompt after the training", func(screen string) bool { // which may come later
		_, after, _ := strings.Cut(screen, "saved model.pt\n")
		return strings.Contains(after, "~$")
	})
	scene("saved model.pt", "", 7*second)
	path, got := filepath.Join(repository, "docs", "images", "tunctl.svg"), film.SVG("A terminal: tunctl up jupyter waits in the queue and opens the page of a notebook. "+
		"A program in the job goes on while the laptop sleeps, and its output continues afterwards.")
	if os.Getenv("TUNCTL_SCREENSHOTS") == "1" {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("docs/images/tunctl.svg is not what the program shows now (%v): `make screenshots` draws it; read the difference to\n%s", err, got)
	}
}

var textOf = regexp.MustCompile(`(?s)<h1>(.*?)</h1>\s*<p>(.*?)</p>`)

// pageText is the title and the first paragraph of a page.
func pageText(t *testing.T, address string) []string {
	t.Helper()
	res, err := http.Get(address)
	must.Do(t, err)
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	must.Do(t, err)
	found := textOf.FindSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no title: %s", page)
	}
	text := regexp.MustCompile(`<[^>]*>|cn0\d`).ReplaceAllStringFunc(string(found[2]), func(part string) string {
		if part[0] == '<' {
			return ""
		}
		return "cn01"
	})
	return []string{string(found[1]), text}
}
