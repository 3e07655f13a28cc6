// Package chromium drives a headless Chromium by its debugging protocol, over a pair of
// pipes: no port is open. Tests and measurements of pages use it; the program does not.
package chromium

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/wait"
)

// Browser is a running Chromium with a profile of its own.
type Browser struct {
	cmd     *exec.Cmd
	profile string
	to      *os.File
	from    *os.File
	read    chan struct{} // closed when the browser says nothing more

	mu      sync.Mutex
	last    int
	waiting map[int]chan<- message
	pages   map[string]*Page // by their sessions
}

// message is a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a browser with further arguments.
func Start(args ...string) (*Browser, error) {
	profile, err := os.MkdirTemp("", "tunctl-chromium-")
	if err != nil {
		return nil, err
	}
	b := &Browser{profile: profile, read: make(chan struct{}), waiting: map[int]chan<- message{}, pages: map[string]*Page{}}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close(), os.RemoveAll(profile))
	}
	b.to, b.from = to, from
	b.cmd = exec.CommandContext(context.Background(), "chromium", append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + profile,
		"--remote-debugging-pipe",
	}, args...)...)
	b.cmd.Env = append(os.Environ(), "HOME="+profile)
	b.cmd.ExtraFiles = []*os.File{in, out} // 3 and 4, as the protocol wants
	b.cmd.WaitDelay = 5 * time.Second
	err = b.cmd.Start()
	_, _ = in.Close(), out.Close() // they are the browser's now
	if err != nil {
		return nil, errors.Join(err, to.Close(), from.Close(), os.RemoveAll(profile))
	}
	go b.receive()
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	_ = b.to.Close() // which ends it in order
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(wait.Limit):
		_ = b.cmd.Process.Kill()
		<-ended
	}
	_ = b.from.Close()
	<-b.read
	// Its child processes end a moment later, and may write until then.
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := os.RemoveAll(b.profile); err == nil || time.Since(began) > wait.Limit {
			return err
		}
	}
}

// Kill ends the browser as a crash does; Close is needed still.
func (b *Browser) Kill() error { return b.cmd.Process.Kill() }

// receive passes answers to those who wait for them, and events to their pages.
func (b *Browser) receive() {
	defer close(b.read)
	in := bufio.NewReaderSize(b.from, 1<<16)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.waiting[m.ID], b.pages[m.Session]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case m.ID == 0 && page != nil:
			page.take(m)
		}
	}
}

// call sends a command, and decodes its result unless that is nil.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: raw}
	b.waiting[m.ID] = answer
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m = <-answer:
	case <-b.read:
		return fmt.Errorf("%s: the browser has ended: %w", method, io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// Page is a tab.
type Page struct {
	browser *Browser
	session string

	mu       sync.Mutex
	problems []string
	lost     []string
}

// NewPage opens a tab.
func (b *Browser) NewPage(ctx context.Context) (*Page, error) {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	if err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached); err != nil {
		return nil, err
	}
	p := &Page{browser: b, session: attached.Session}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Runtime", "Log", "Audits", "Page", "Network"} {
		if err := p.Call(ctx, domain+".enable", nil, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Call sends a command of the debugging protocol.
func (p *Page) Call(ctx context.Context, method string, params map[string]any, result any) error {
	if params == nil {
		params = map[string]any{}
	}
	return p.browser.call(ctx, p.session, method, params, result)
}

// take notes what should not happen on a page: errors, and violations of its policy; and what did not load. It
// leaves a page that would ask whether to stay.
func (p *Page) take(m message) {
	var e struct {
		Type  string `json:"type"`
		Lost  string `json:"errorText"`
		Entry struct {
			Source, Level, Text string
		} `json:"entry"`
		Args []struct {
			Value       any    `json:"value"`
			Description string `json:"description"`
		} `json:"args"`
		Exception struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
		Issue struct {
			Code    string          `json:"code"`
			Details json.RawMessage `json:"details"`
		} `json:"issue"`
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var problem string
	switch {
	case m.Method == "Network.loadingFailed":
		p.lost = append(p.lost, e.Lost)
		return
	case m.Method == "Page.javascriptDialogOpening":
		go func() {
			_ = p.Call(context.Background(), "Page.handleJavaScriptDialog", map[string]any{"accept": true}, nil)
		}()
		return
	case m.Method == "Runtime.exceptionThrown":
		problem = e.Exception.Text + " " + e.Exception.Exception.Description
	case m.Method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "warning"):
		problem = fmt.Sprintf("console: %v", e.Args)
	case m.Method == "Log.entryAdded" && e.Entry.Level == "error" && e.Entry.Source != "network": // a refused request is no error of the page
		problem = e.Entry.Source + ": " + e.Entry.Text
	case m.Method == "Audits.issueAdded" && e.Issue.Code == "ContentSecurityPolicyIssue":
		problem = "policy: " + string(e.Issue.Details)
	default:
		return
	}
	p.problems = append(p.problems, problem)
}

// Problems are the errors on the page so far, and the violations of its policy.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Lost says why files of the page did not load so far.
func (p *Page) Lost() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lost)
}

// Navigate loads an address.
func (p *Page) Navigate(ctx context.Context, address string) error {
	var loaded struct {
		Error string `json:"errorText"`
	}
	if err := p.Call(ctx, "Page.navigate", map[string]any{"url": address}, &loaded); err != nil {
		return err
	}
	if loaded.Error != "" {
		return errors.New(loaded.Error)
	}
	return nil
}

// Evaluate runs an expression in the page, as if by the user's gesture, and decodes its
// value, or that of its promise.
func (p *Page) Evaluate(ctx context.Context, expression string, value any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.Call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Exception != nil:
		return fmt.Errorf("%s %s", answer.Exception.Text, answer.Exception.Exception.Description)
	case value == nil || answer.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, value)
}

// Until waits until a condition holds on the page, whichever page that is by then. One that could not be
// loaded is loaded again, as a browser with a window does: it ends all loading when the addresses of the
// machine change, as they do when another test starts its lab.
func (p *Page) Until(ctx context.Context, condition string) error {
	ctx, stop := context.WithTimeout(ctx, never)
	defer stop()
	for {
		holds := new(bool) // nil: it is the browser's own page about an error
		once, cancel := context.WithTimeout(ctx, answerWithin)
		err := p.Evaluate(once, `location.protocol === "chrome-error:" ? null : !!(`+condition+")", &holds) // which fails while a page is on its way
		if err == nil && holds == nil {
			err = p.Call(once, "Page.reload", nil, nil)
		}
		cancel()
		if err == nil && holds != nil && *holds {
			return nil
		}
		if ctxtime.Sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("never: %s (%w)", condition, errors.Join(err, ctx.Err()))
		}
	}
}

// never is when a condition will not hold any more, whatever the machine has to do beside.
const never = 5 * wait.Limit

// answerWithin is when an expression is evaluated again: the browser loses an answer now and then.
const answerWithin = 10 * time.Second

// Front brings the tab to the front. Those behind it are hidden: they draw nothing.
func (p *Page) Front(ctx context.Context) error { return p.Call(ctx, "Page.bringToFront", nil, nil) }

// Size sets the size of the window, in the page's pixels.
func (p *Page) Size(ctx context.Context, width, height int) error {
	return p.Call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// ColorScheme sets what the user prefers: "light" or "dark".
func (p *Page) ColorScheme(ctx context.Context, scheme string) error {
	return p.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Press presses a key, such as Tab or Enter.
func (p *Page) Press(ctx context.Context, key string) error {
	code := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}[key]
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if key == "Enter" {
		down["text"] = "\r"
	}
	if err := p.Call(ctx, "Input.dispatchKeyEvent", down, nil); err != nil {
		return err
	}
	return p.Call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// Picture is what the window shows, as a PNG.
func (p *Page) Picture(ctx context.Context) ([]byte, error) {
	var shot struct {
		Data []byte `json:"data"`
	}
	err := p.Call(ctx, "Page.captureScreenshot", nil, &shot)
	return shot.Data, err
}

//go:embed testdata/axe-core/axe.min.js
var axe string

// Barriers are what axe-core finds on the page that keeps people out, light or dark as it is shown. With
// rules, only those are checked.
func (p *Page) Barriers(ctx context.Context, rules ...string) ([]string, error) {
	options := map[string]any{"resultTypes": []string{"violations"}}
	if len(rules) > 0 {
		options["runOnly"] = rules
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	var found []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	// The debugging protocol is not bound by the page's policy.
	err = p.Evaluate(ctx, "if (!window.axe) {"+axe+"}\naxe.run(document, "+string(text)+").then((r) => r.violations)", &found)
	var list []string
	for _, f := range found {
		for _, n := range f.Nodes {
			list = append(list, fmt.Sprintf("%s (%s)\n%.300s\n%s", f.Help, f.ID, n.HTML, n.FailureSummary))
		}
	}
	return list, err
}
