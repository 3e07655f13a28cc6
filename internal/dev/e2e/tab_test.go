package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// tab is the window of a headless browser, spoken to by its debugging protocol.
type tab struct {
	t    *testing.T
	conn *websocket.Conn
	last int      // the id of the last question
	lost []string // why files did not load
}

func openTab(t *testing.T) *tab {
	t.Helper()
	profile := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--window-size=1000,700", "--remote-debugging-port=0", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t}
	t.Cleanup(func() {
		if b.conn != nil {
			_ = b.conn.CloseNow()
		}
		cancel()
		_ = cmd.Wait() // killed by us
		removeProfile(t, profile)
	})
	b.attach(profile)
	if err := b.ask("Network.enable", nil, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// removeProfile removes the profile of a browser that was killed. Its child processes end
// by themselves a moment later, and may write until then.
func removeProfile(t *testing.T, profile string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		err := os.RemoveAll(profile)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// attach finds the browser's window by the file that it leaves in its profile.
func (b *tab) attach(profile string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for {
		target, err := debugTarget(ctx, profile)
		if err == nil {
			b.conn, _, err = websocket.Dial(ctx, target, nil) //nolint:bodyclose // the library closes it
		}
		if err == nil {
			b.conn.SetReadLimit(64 << 20)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.t.Fatalf("the browser shows no window: %v", err)
		}
	}
}

func debugTarget(ctx context.Context, profile string) (string, error) {
	text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
	if err != nil {
		return "", err
	}
	port, _, _ := strings.Cut(string(text), "\n")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/json/list", nil)
	if err != nil {
		return "", err
	}
	res, err := browser().Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var targets []struct {
		Type string `json:"type"`
		URL  string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(res.Body).Decode(&targets); err != nil {
		return "", err
	}
	for _, x := range targets {
		if x.Type == "page" {
			return x.URL, nil
		}
	}
	return "", fmt.Errorf("no window among %d", len(targets))
}

// ask sends one command and decodes its result.
func (b *tab) ask(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	b.last++
	err := wsjson.Write(ctx, b.conn, map[string]any{"id": b.last, "method": method, "params": params})
	for err == nil {
		var answer struct {
			ID     int    `json:"id"`
			Method string `json:"method"`
			Params struct {
				Error string `json:"errorText"`
			} `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err = wsjson.Read(ctx, b.conn, &answer); err != nil || answer.ID != b.last {
			if answer.Method == "Network.loadingFailed" {
				b.lost = append(b.lost, answer.Params.Error)
			}
			continue
		}
		if answer.Error != nil {
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		}
		return json.Unmarshal(answer.Result, result)
	}
	return fmt.Errorf("%s: %w", method, err)
}

func (b *tab) navigate(address string) {
	b.t.Helper()
	var loaded struct {
		Error string `json:"errorText"`
	}
	if err := b.ask("Page.navigate", map[string]any{"url": address}, &loaded); err != nil || loaded.Error != "" {
		b.t.Fatalf("navigate: %v %s", err, loaded.Error)
	}
}

// evaluate runs an expression in the page, whichever page that is by now.
func (b *tab) evaluate(expression string, value any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := b.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Exception != nil:
		return fmt.Errorf("%s: %s", expression, answer.Exception.Text)
	case answer.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, value)
}

// until waits until a condition holds.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	if err := b.await(condition, patience); err != nil {
		b.never(what, err)
	}
}

// untilLoaded opens a page whose scripts give up if one of them does not load in time, as
// those of a notebook do after 30 s: a person loads it again.
func (b *tab) untilLoaded(address, what, condition string) {
	b.t.Helper()
	var err error
	for range 9 {
		b.navigate("about:blank") // another fragment alone loads nothing
		b.navigate(address)
		if err = b.await(condition, 40*time.Second); err == nil {
			return
		}
		b.t.Logf("not yet: %s (%v); what did not load: %q", what, err, b.lost)
	}
	b.never(what, err)
}

var errNotYet = errors.New("the condition does not hold")

func (b *tab) await(condition string, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		holds := false
		err := b.evaluate(condition, &holds) // which fails while a page is on its way
		if err == nil && holds {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-deadline.C:
			return cmp.Or(err, errNotYet)
		}
	}
}

// never fails the test, with a picture and the files of the page that did not come or were slow.
func (b *tab) never(what string, why error) {
	b.t.Helper()
	b.t.Errorf("never: %s (%v)", what, why)
	b.picture(artifact(b.t, "never.png"))
	var files string
	_ = b.evaluate(`document.readyState + "\n" + performance.getEntriesByType("resource")
		.filter(r => r.responseStatus != 200 || r.duration > 5000)
		.map(r => [r.responseStatus, Math.round(r.duration) + " ms", new URL(r.name).pathname].join(" ")).join("\n")`, &files)
	b.t.Fatalf("%s\nwhat did not load: %q", files, b.lost)
}

func (b *tab) text(expression string) (text string) {
	b.t.Helper()
	if err := b.evaluate(expression, &text); err != nil {
		b.t.Fatal(err)
	}
	return text
}

// address is where the tab is, without a token that it was opened with.
func (b *tab) address() string {
	b.t.Helper()
	return b.text(`location.origin + location.pathname`)
}

// picture keeps what the tab shows.
func (b *tab) picture(file string) {
	b.t.Helper()
	if !pictures && !b.t.Failed() {
		return
	}
	var shot struct {
		Data string `json:"data"`
	}
	err := b.ask("Page.captureScreenshot", map[string]any{}, &shot)
	if err == nil {
		var png []byte
		if png, err = base64.StdEncoding.DecodeString(shot.Data); err == nil {
			err = os.WriteFile(file, png, 0o644)
		}
	}
	if err != nil {
		b.t.Error(err)
	}
}
