package main

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// terminalPage is a page that shows a terminal's text.
const terminalPage = `<!doctype html><meta charset="utf-8"><title>terminal</title><style>
body { margin: 0; width: max-content }
figure { margin: 0; padding: 20px 28px 24px; border-radius: 12px; background: #1b1f27; color: #e3e6eb }
header { display: flex; gap: 10px; margin-bottom: 18px }
i { width: 15px; height: 15px; border-radius: 50%; background: #4a515e }
pre { margin: 0; width: 68ch; font: 21px/1.45 "DejaVu Sans Mono", monospace }
.bold { font-weight: bold }
.c31 { color: #ff7b72 } .c32 { color: #56d364 } .c33 { color: #e3b341 } .c90 { color: #949ca9 }
.cursor { background: #e3e6eb; color: #1b1f27 }
</style><figure><header><i></i><i></i><i></i></header><pre>`

// fixed are the parts of the terminal's picture that would differ from run to run, and
// what it has instead.
var fixed = []struct {
	part *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`(is ready until ).*(, on)`), "${1}16:05${2}"},
	{regexp.MustCompile(`\b(localhost):\d+`), "${1}:8888"},
	{regexp.MustCompile(`\b(cn0\d):\d+`), "${1}:23817"},
	{regexp.MustCompile(`(connected to .*"c90">).*(</span>)`), "${1}1.2 s${2}"},
	{regexp.MustCompile(`(job \d+ jupyterlab .*"c90">).*(</span>)`), "${1}0.8 s${2}"},
	{regexp.MustCompile(`(started on .*"c90">).*(</span>)`), "${1}2 min 11 s${2}"},
	{regexp.MustCompile(`(responds on .*"c90">).*(</span>)`), "${1}4.6 s${2}"},
}

// TestTheTerminalOfTheReadmeInARealBrowser draws what a terminal shows after `tunctl up`, on
// the practice cluster. Times and ports are fixed, so that the picture changes only with
// the program.
func TestTheTerminalOfTheReadmeInARealBrowser(t *testing.T) {
	if os.Getenv("TUNCTL_SCREENSHOTS") != "1" {
		t.Skip("pictures are taken by `make screenshots`")
	}
	real.Need(t, "browser")
	// A job waits in the queue, and a notebook takes a while to start. If both were too
	// short, these steps would not be seen.
	s := newSandboxQueued(t, 5*time.Second)
	s.write(filepath.Join(s.cluster.Home(), "jupyter.sh"), strings.Replace(lab.JobScript(s.cluster.Dialect()), "\nPORT=", "\nsleep 5\nPORT=", 1))
	browser := filepath.Join(t.TempDir(), "browser")
	if err := testprogram.Write(browser, []byte(browserScript)); err != nil {
		t.Fatal(err)
	}
	fetchLinks(t, browser)
	tools := t.TempDir()
	if err := os.Symlink(program, filepath.Join(tools, "tunctl")); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile")
	shell.Env = append(slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") }),
		"PS1=$ ", "TERM=xterm", "BROWSER="+browser, "DISPLAY=:none", "PATH="+tools+":"+os.Getenv("PATH"))
	k := ptytest.StartSized(t, shell, 80, 24)
	k.ExpectScreen("$")
	k.Type("tunctl up jupyter\n")
	k.ExpectScreen("opened the page\n$")
	screen := k.HTML()
	for _, f := range fixed {
		if !f.part.MatchString(screen) {
			t.Errorf("the terminal does not show %s", f.part)
		}
		screen = f.part.ReplaceAllString(screen, f.text)
	}
	for _, words := range []string{
		"$ tunctl up jupyter\n", `<span class="c32">✓</span> connected to practice  `, ">1.2 s</span>\n", ">2 min 11 s</span>\n", "responds on cn01:23817  ", ">4.6 s</span>\n",
		" is ready until 16:05, on cn01\nhttp://localhost:8888/lab\n", " opened the page\n$ <span class=\"cursor\">",
	} {
		if !strings.Contains(screen, words) {
			t.Errorf("the terminal does not show %q:\n%s", words, screen)
		}
	}
	if t.Failed() {
		t.FailNow() // the picture stays as it is
	}
	draw(t, terminalPage+screen, "up.png")
}

// draw makes a picture of a page for the documentation.
func draw(t *testing.T, page, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	b, err := chromium.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	tab, err := b.NewPage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Navigate(ctx, "data:text/html;base64,"+base64.StdEncoding.EncodeToString([]byte(page))); err != nil {
		t.Fatal(err)
	}
	if err := tab.Until(ctx, `document.readyState === "complete" && document.querySelector("pre")`); err != nil {
		t.Fatal(err)
	}
	var size struct{ Width, Height int }
	if err := tab.Evaluate(ctx, `({ width: document.body.offsetWidth, height: document.body.offsetHeight })`, &size); err != nil {
		t.Fatal(err)
	}
	if err := tab.Size(ctx, size.Width, size.Height); err != nil {
		t.Fatal(err)
	}
	// The round corners are transparent: a reader's page may be dark.
	if err := tab.Call(ctx, "Emulation.setDefaultBackgroundColorOverride", map[string]any{"color": map[string]int{"r": 0, "g": 0, "b": 0, "a": 0}}, nil); err != nil {
		t.Fatal(err)
	}
	png, err := tab.Picture(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "docs", "images", name), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
