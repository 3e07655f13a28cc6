package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/real"
)

// pictured is the time on the README's picture of the dashboard.
var pictured = time.Date(2026, time.November, 17, 14, 44, 0, 0, time.UTC)

// ago is a time before the picture's.
func ago(d time.Duration) time.Time { return pictured.Add(-d) }

// pictureStatus is what the agent tells about the sessions and the host in the picture.
var pictureStatus = api.Status{
	Version: 1,
	Agent:   &api.Agent{PID: 1, Version: "1", Since: ago(30 * time.Hour)},
	Hosts: []api.Host{{
		Alias: "mycluster", State: api.HostUp, LoginNode: "login2", Auth: "publickey,keyboard-interactive", RTTMs: 18,
		Since: ago(5 * time.Hour), Channels: 3, MaxChannels: 8, IdentityFiles: []string{}, Via: []string{},
	}},
	Sessions: []api.Session{
		{
			Name: "jupyter", Host: "mycluster", State: api.SessionReady, Since: ago(158 * time.Minute), URL: "http://localhost:8888/lab", Local: "127.0.0.1:8888",
			Job: &api.Job{
				ID: "48213", Name: "jupyterlab", State: api.JobRunning, Queue: "cpu", Node: "cpu014",
				Submitted: ago(161 * time.Minute), Start: ago(159 * time.Minute), End: ago(-81 * time.Minute),
			},
			Forwards: []api.Forward{{Kind: api.ForwardLocal, Listen: "127.0.0.1:8888", Target: "cpu014:23817", Conns: 4, Total: 31, LastUsed: pictured}},
		},
		{
			Name: "training", Host: "mycluster", App: api.AppShell, State: api.SessionReady, Since: ago(4 * time.Hour),
			Job: &api.Job{
				ID: "48190", Name: "training", State: api.JobRunning, Queue: "gpu", Node: "gpu021",
				Submitted: ago(5 * time.Hour), Start: ago(4 * time.Hour), End: ago(-20 * time.Hour),
			},
			Forwards: []api.Forward{},
		},
		{
			Name: "evaluation", Host: "mycluster", State: api.SessionQueued, Since: ago(12 * time.Minute),
			Cause: "waiting for free nodes; earlier jobs like this waited 4 to 25 min (3 runs)",
			Job: &api.Job{
				ID: "48231", Name: "evaluation", State: api.JobQueued, Queue: "gpu", Reason: "Resources", Hint: "waiting for free nodes",
				Submitted: ago(12 * time.Minute), ExpectedStart: ago(-9 * time.Minute),
			},
			Forwards: []api.Forward{},
		},
		{Name: "rstudio", Host: "mycluster", State: api.SessionDown, Forwards: []api.Forward{}},
	},
}

// pictureUsage are the samples of the last hour of a session's job.
func pictureUsage(session string, cpus int, memory, limit int64, gpus ...float64) []api.Usage {
	var list []api.Usage
	var sent int64
	for minute := range 60 {
		at := ago(time.Duration(59-minute) * time.Minute)
		wave := 0.7*math.Sin(float64(minute+cpus)/6) + 0.3*math.Sin(2.3*float64(minute))
		cpu := 38 + 22*wave
		u := api.Usage{
			Session: session, Time: at, Source: api.UsageStep, CPUPercent: &cpu, CPUs: cpus,
			Memory: memory * int64(60+minute) / 119, MemoryLimit: limit,
		}
		for i, most := range gpus {
			percent := most - 6*(1+wave) - 9*math.Abs(math.Sin(float64(minute+7*i)/9))
			u.GPUs = append(u.GPUs, api.GPUUsage{Name: "A100", Percent: &percent, Memory: int64(30+3*i) * 1e9, MemoryTotal: 40e9})
		}
		if session == "jupyter" {
			sent += int64(2e6 * (1 + wave) * (1 + wave))
			u.BytesIn = sent
		}
		list = append(list, u)
	}
	return list
}

// pictureAgent is an agent that tells what the picture shows.
func pictureAgent() http.Handler {
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
	}
	stream := func(lines ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, line := range lines {
				_ = json.NewEncoder(w).Encode(line)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	var usage []any
	for _, list := range [][]api.Usage{
		pictureUsage("jupyter", 8, 21e9, 64e9), pictureUsage("training", 16, 88e9, 128e9, 98, 99),
	} {
		for _, u := range list {
			usage = append(usage, u)
		}
	}
	routes := http.NewServeMux()
	routes.Handle("GET /v1/status", answer(pictureStatus))
	routes.Handle("GET /v1/watch", stream(api.Event{Type: api.EventStatus, Time: pictured, Status: &pictureStatus}))
	routes.Handle("GET /v1/usage", stream(usage...))
	routes.Handle("GET /v1/history", answer(api.HistoryResponse{}))
	routes.Handle("GET /v1/hosts/mycluster/last-jobs", answer(api.JobsResponse{}))
	routes.Handle("GET /v1/balances", answer([]api.HostBalances{{Host: "mycluster", At: ago(20 * time.Minute), Balances: []api.Balance{
		{Name: "def-alice", Used: 1234.5, Total: 2000, Unit: "GPU-hours"},
		{Name: "/home", Used: 46.9, Total: 50, Unit: "GB"},
		{Name: "/scratch", Used: 1.4, Total: 20, Unit: "TB"},
	}}}))
	return routes
}

// fixedClock makes a page believe that it is always the same time.
const fixedClock = `globalThis.Date = class extends Date {
	static at = Date.parse(%q);
	static now() { return this.at; }
	constructor(...parts) { super(...(parts.length ? parts : [Date.at])); }
}`

// TestTheDashboardOfTheReadmeInARealBrowser draws the page for the README: several
// sessions with their use, the host and the balance. The agent is made up and the clock
// stands still, so that the picture changes only with the page.
func TestTheDashboardOfTheReadmeInARealBrowser(t *testing.T) {
	if os.Getenv("TUNCTL_SCREENSHOTS") != "1" {
		t.Skip("pictures are taken by `make screenshots`")
	}
	real.Need(t, "browser")
	_, link := serveWith(t, Options{Client: agentWith(t, pictureAgent())})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := chromium.Start()
	must(err)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	page, err := b.NewPage(ctx)
	must(err)
	must(page.Size(ctx, 1200, 900))
	must(page.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": "light"}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil))
	must(page.Call(ctx, "Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil))
	must(page.Call(ctx, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fmt.Sprintf(fixedClock, pictured.Format(time.RFC3339))}, nil))
	must(page.Navigate(ctx, link))
	for selector, texts := range map[string][]string{
		"#link":                    {"Live"},
		"#cards .state":            {"Ready", "In the queue", "Not running"},
		"#cards .bar .text":        {"1 h 21 min left, ends 16:05", "Memory 21 GB of 64 GB"},
		"#cards .spark figcaption": {"CPU", "GPU", "Traffic"},
		"#cards .cause":            {"waiting for free nodes"},
		"#cards dl":                {"http://localhost:8888/lab", "GPU memory", "tunctl ssh training"},
		"#hosts":                   {"Connected", "SSH key", "3 of 8 SSH sessions in use"},
		"#balances":                {"def-alice: 1,234.5 of 2,000 GPU-hours used"},
	} {
		for _, text := range texts {
			must(page.Until(ctx, fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`, selector, text)))
		}
	}
	if problems := page.Problems(); len(problems) > 0 {
		t.Fatalf("the page has problems: %q", problems)
	}
	// The picture ends below the sessions.
	var height int
	must(page.Evaluate(ctx, `Math.ceil(document.getElementById("cards").getBoundingClientRect().bottom) + 16`, &height))
	must(page.Size(ctx, 1200, height))
	png, err := page.Picture(ctx)
	must(err)
	must(os.WriteFile(filepath.Join("..", "..", "docs", "images", "dashboard.png"), png, 0o644))
}
