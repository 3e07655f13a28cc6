//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
)

// readyGreen is the icon's colour when something is ready.
var readyGreen = color.NRGBA{0x1e, 0x96, 0x4b, 0xff}

// browserCommand is the user's browser: Chromium, which tells us what it shows.
const browserCommand = `#!/bin/sh
exec chromium --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --password-store=basic --window-position=0,34 --window-size=1024,734 \
  --remote-debugging-port=0 --user-data-dir='%s' "$1"
`

func TestTheNotebookOpensFromTheTray(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser", "desktop")
	t.Parallel()
	l := newLaptop(t, notebookConfig)
	d := desktest.New(t)
	onlooker := desktest.WatchProcesses(t)
	profile, script := filepath.Join(d.Home, "chromium"), filepath.Join(d.Home, "browser")
	if err := testprogram.Write(script, fmt.Appendf(nil, browserCommand, profile)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endBrowser(t, profile) })
	d.StartNotifications()
	d.StartPanel()
	l.run("up", "--no-open")

	quit := startTray(l, d, "BROWSER="+script)
	menu := d.OpenMenu("tray-menu", d.Find("tray-icon", readyGreen))
	d.ClickFirst("tray-pointed", menu)

	base, token := l.page()
	title := awaitPage(t, profile, base.String())
	if !strings.Contains(title, "Home") && !strings.Contains(title, "Jupyter") {
		t.Errorf("the browser shows %q, no notebook", title)
	}
	onlooker.Await(profile) // of the browser, whose next word is the link
	if words := onlooker.Saw(token); token == "" || len(words) > 0 {
		t.Errorf("the token is in command lines: %q", words)
	}
	d.Look("tray-notebook")
	quit()
	l.run("down", "--cancel")
}

// startTray shows the tray on a desk; quit ends it, as the user's logout would.
func startTray(l *laptop, d *desktest.Desk, env ...string) (quit func()) {
	l.t.Helper()
	cmd := l.command("tray")
	// The tray's library races with itself.
	races := "GORACE=exitcode=0 log_path=" + filepath.Join(l.t.TempDir(), "races")
	cmd.Env = slices.Concat(l.env, d.Env, []string{races}, env)
	said := &strings.Builder{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	return func() {
		l.t.Helper()
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			l.t.Errorf("the tray: %v\n%s", err, said)
		}
	}
}

// endBrowser ends the browser, which outlives the tray that started it, and waits
// until it is gone.
func endBrowser(t *testing.T, profile string) {
	t.Helper()
	lock, err := os.Readlink(filepath.Join(profile, "SingletonLock")) // HOSTNAME-PID
	if err != nil {
		return // it never started
	}
	pid, err := strconv.Atoi(lock[strings.LastIndex(lock, "-")+1:])
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0) // it is no child of ours, but this tells of its end
	if err != nil {
		return // it has ended by itself
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	for n := 0; n == 0; {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			t.Fatalf("the browser does not end: %v", err)
		}
	}
}

// awaitPage waits until the browser shows a page below address with a title, and
// returns that.
func awaitPage(t *testing.T, profile, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("the browser never started")
	for {
		title, err := shownTitle(ctx, profile, address)
		if err == nil {
			return title
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(last)
		}
	}
}

// shownTitle asks the browser for the title of its page below address.
func shownTitle(ctx context.Context, profile, address string) (string, error) {
	active, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
	if err != nil {
		return "", err
	}
	port, _, _ := strings.Cut(string(active), "\n")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/json/list", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := browser().Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var pages []struct{ Title, URL string }
	if err := json.NewDecoder(res.Body).Decode(&pages); err != nil {
		return "", err
	}
	for _, p := range pages {
		if strings.HasPrefix(p.URL, address) && p.Title != "" && !strings.HasPrefix(p.Title, "localhost") {
			return p.Title, nil
		}
	}
	return "", fmt.Errorf("no page below %s in %+v", address, pages)
}
