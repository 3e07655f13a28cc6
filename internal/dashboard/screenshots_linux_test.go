package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/must"
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
		Alias: "mycluster", State: api.HostUp, LoginNode: "login2", Auth: "publickey+keyboard-interactive", RTTMs: 18,
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

// pictureHistory are the jobs of the last weeks: of each outcome, from seconds to hours.
func pictureHistory() (runs []api.Run) {
	states := []api.JobState{api.JobFinished, api.JobFinished, api.JobCancelled, api.JobFailed, api.JobTimeout, api.JobFinished, api.JobOOM}
	for i := range 40 {
		end := ago(time.Duration(40-i) * 31 * time.Hour)
		start := end.Add(-time.Duration(1+i*i%17) * 20 * time.Minute)
		runs = append(runs, api.Run{
			Session: []string{"jupyter", "training"}[i%2], Host: "mycluster", Noted: end, Idle: int64(i%4) * 900,
			Job: api.Job{ID: strconv.Itoa(47000 + 13*i), State: states[i%len(states)], Submitted: start.Add(-time.Duration(i%9) * 4 * time.Minute), Start: start, End: end},
		})
	}
	return append(runs, api.Run{
		Session: "rstudio", Host: "mycluster", Noted: ago(time.Hour),
		Job: api.Job{ID: "48200", State: api.JobFailed, Submitted: ago(time.Hour + 5*time.Second), Start: ago(time.Hour + 2*time.Second), End: ago(time.Hour)},
	})
}

// pictureOf is what an agent with so many sessions tells: one that is ready, one of each kind, or a
// whole course, with many jobs.
func pictureOf(sessions int) (st api.Status, jobs []api.Job) {
	st = pictureStatus
	st.Sessions = slices.Clone(st.Sessions[:min(sessions, len(st.Sessions))])
	for _, s := range st.Sessions {
		if s.Job != nil {
			jobs = append(jobs, *s.Job)
		}
	}
	if sessions > 4 {
		st.Sessions = append(st.Sessions, api.Session{
			Name: "assimilation", Host: "mycluster", State: api.SessionFailed, Since: ago(20 * time.Minute), Code: api.CodeFailed, Forwards: []api.Forward{},
			Cause: "job 48229 ended before its server answered; its log ends with:\nModuleNotFoundError: No module named 'jupyterlab'\nsrun: error: cpu014: task 0: Exited with exit code 1",
			Hint:  "install it in the environment, or set `with` in the session's section; then `tunctl up assimilation`",
			Job:   &api.Job{ID: "48229", State: api.JobFailed, Queue: "cpu", Node: "cpu014", Start: ago(22 * time.Minute), End: ago(20 * time.Minute)},
		})
	}
	if sessions > 5 {
		st.Hosts = append(slices.Clone(st.Hosts), api.Host{
			Alias: "teaching", State: api.HostNeedsLogin, Cause: "the login needs your password and a one-time code", Hint: "run `tunctl login teaching`",
			Since: ago(4 * time.Minute), IdentityFiles: []string{}, Via: []string{},
		}, api.Host{Alias: "far.example.org", State: api.HostWaiting, Cause: "no network; next attempt in 40 s", IdentityFiles: []string{}, Via: []string{}})
		st.Sessions = append(st.Sessions, api.Session{Name: "course", Host: "teaching", State: api.SessionNeedsLogin, Cause: "the login needs your password and a one-time code", Hint: "run `tunctl login teaching`", Forwards: []api.Forward{}})
		for i := range 200 {
			job := api.Job{ID: strconv.Itoa(49000 + i), Name: "sweep", State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", Submitted: ago(time.Duration(i) * time.Minute)}
			if i < 12 {
				job.State, job.Node, job.Start = api.JobRunning, fmt.Sprintf("cpu%03d", 100+i), ago(time.Duration(i)*time.Minute)
			}
			jobs = append(jobs, job)
		}
	}
	for i := len(st.Sessions); i < sessions; i++ {
		st.Sessions = append(st.Sessions, api.Session{Name: fmt.Sprintf("exercise-%02d-with-a-long-name", i), Host: "mycluster", State: api.SessionDown, Forwards: []api.Forward{}})
	}
	return st, jobs
}

// pictureAgent is an agent with so many sessions. It ends, but for its socket, with stop.
func pictureAgent(sessions int, stop <-chan struct{}) http.Handler {
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	stream := func(lines ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if stopped() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			for _, line := range lines {
				_ = json.NewEncoder(w).Encode(line)
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		}
	}
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
	}
	var usage []any
	for _, list := range [][]api.Usage{
		pictureUsage("jupyter", 8, 21e9, 64e9), pictureUsage("training", 16, 88e9, 128e9, 98, 99),
	} {
		for _, u := range list {
			usage = append(usage, u)
		}
	}
	st, jobs := pictureOf(sessions)
	routes := http.NewServeMux()
	routes.Handle("GET /v1/status", answer(st))
	routes.Handle("GET /v1/watch", stream(api.Event{Type: api.EventStatus, Time: pictured, Status: &st}))
	routes.Handle("GET /v1/usage", stream(usage...))
	routes.Handle("GET /v1/history", answer(api.HistoryResponse{Runs: pictureHistory(), Weeks: state.Summarize(pictureHistory())}))
	routes.Handle("GET /v1/hosts/mycluster/last-jobs", answer(api.JobsResponse{Jobs: jobs}))
	routes.Handle("GET /v1/hosts/{name}/last-jobs", answer(api.JobsResponse{}))
	routes.Handle("GET /v1/sessions/{name}/log", stream(api.LogChunk{Lines: slices.Repeat([]api.LogLine{
		{{Text: "step 120: loss ", Style: ""}, {Text: "0.0417", Style: "bold"}, {Text: ", 3.1 it/s"}},
		{{Text: "warning: ", Style: "yellow"}, {Text: "2 samples were skipped"}},
		{{Text: "saved ", Style: "green"}, {Text: "model-120.pt", Style: "cyan"}, {Text: " in ", Style: ""}, {Text: "3 s", Style: "magenta"}},
	}, 30)}))
	routes.Handle("POST /v1/preview", answer(api.Preview{Cost: "4 GPU-hours, 32 core-hours"}))
	routes.Handle("GET /v1/sessions/{name}/choices", answer(api.ChoicesResponse{
		Options: []api.Option{
			{Name: "hours", Ask: "How many hours should the job last?", Script: "4"},
			{Name: "gpus", Ask: "How many GPUs?", Script: "1"},
			{Name: "cpus", Ask: "How many CPU cores?", Script: "8"},
			{Name: "memory", Ask: "How much memory?", Script: "64G"},
			{Name: "nodes", Ask: "How many nodes?"},
			{Name: "account", Ask: "Which account is charged?", Known: []string{"def-alice", "rrg-alice"}},
			{Name: "partition", Ask: "Which partition?", Known: []string{"gpu", "cpu"}},
			{Name: "qos", Ask: "Which QoS?"},
		},
		Recent: []api.Choices{{"hours": "8", "gpus": "2"}},
	}))
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

// painter draws pages of the dashboard in a browser whose clock stands still.
type painter struct {
	t    *testing.T
	ctx  context.Context
	page *chromium.Page
}

func newPainter(t *testing.T) *painter {
	t.Helper()
	if os.Getenv("TUNCTL_SCREENSHOTS") != "1" {
		t.Skip("pictures are taken by `make screenshots`")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	p := &painter{t: t, ctx: ctx}
	p.page = newPage(ctx, t)
	p.look("light", 1280)
	must.Do(p.t, p.page.Call(ctx, "Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil))
	must.Do(p.t, p.page.Call(ctx, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fmt.Sprintf(fixedClock, pictured.Format(time.RFC3339))}, nil))
	return p
}

// look sets the colours and the width of the window.
func (p *painter) look(scheme string, width int) {
	p.t.Helper()
	must.Do(p.t, p.page.Size(p.ctx, width, map[int]int{360: 780, 1280: 900, 3840: 2160}[width]))
	must.Do(p.t, p.page.Call(p.ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil))
}

// shows waits until an element contains a text.
func (p *painter) shows(selector, text string) {
	p.t.Helper()
	must.Do(p.t, p.page.Until(p.ctx, fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`, selector, text)))
}

// run evaluates a script in the page.
func (p *painter) run(script string) {
	p.t.Helper()
	must.Do(p.t, p.page.Evaluate(p.ctx, script, nil))
}

func (p *painter) picture(path string) {
	p.t.Helper()
	png, err := p.page.Picture(p.ctx)
	must.Do(p.t, err)
	must.Do(p.t, os.WriteFile(path, png, 0o644))
}

// pictures draws what the page shows at each width, light and dark, and looks for barriers with
// axe-core.
func (p *painter) pictures(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1280, 3840} {
			p.look(scheme, width)
			p.run(`scrollTo(0, 0)`)
			var wider int
			must.Do(p.t, p.page.Evaluate(p.ctx, `document.documentElement.scrollWidth - innerWidth`, &wider))
			if wider > 0 {
				p.t.Errorf("%s, %d: the page is %d pixels wider than the window", name, width, wider)
			}
			p.picture(filepath.Join(os.Getenv("TUNCTL_ARTIFACTS"), fmt.Sprintf("dashboard-%s-%d-%s.png", name, width, scheme)))
			if width == 1280 || width == 360 && scheme == "light" { // where only the colours differ, once is enough
				p.examine(fmt.Sprintf("%s, %d, %s", name, width, scheme))
			}
		}
	}
}

func (p *painter) examine(what string) {
	p.t.Helper()
	barriers, err := p.page.Barriers(p.ctx)
	must.Do(p.t, err)
	for _, barrier := range barriers {
		p.t.Errorf("%s: %s", what, barrier)
	}
}

func TestPageInARealBrowser(t *testing.T) {
	p := newPainter(t)
	for _, sessions := range []int{1, 5, 31} {
		stop := make(chan struct{})
		s, link := serveWith(t, Options{Client: agentWith(t, pictureAgent(sessions, stop))})
		must.Do(p.t, p.page.Navigate(p.ctx, link))
		p.shows("#link", "Live")
		p.shows("#cards .spark figcaption", "CPU")
		p.shows("#hosts", "def-alice")
		for _, view := range []string{"overview", "jobs", "logs", "history"} {
			p.run(`location.hash = "` + view + `"`)
			p.shows("#"+view+" h2", "")
			if view == "logs" {
				p.shows("#log", "step 120")
			}
			p.pictures(fmt.Sprintf("%s-%d", view, sessions))
		}
		if sessions == 5 {
			p.run(`location.hash = "overview"`)
			for session, scheme := range map[string]string{"jupyter": "light", "rstudio": "dark"} {
				for _, width := range []int{360, 1280} {
					p.look(scheme, width)
					p.run(fmt.Sprintf(`for (const b of [document.querySelector("[data-session=%s] .more > button")]) { b.scrollIntoView({ block: "center" }); b.click(); }`, session))
					p.picture(filepath.Join(os.Getenv("TUNCTL_ARTIFACTS"), fmt.Sprintf("dashboard-menu-%d-%s.png", width, scheme)))
					p.examine(fmt.Sprintf("the menu of %s, %d", session, width))
					p.run(fmt.Sprintf(`document.querySelector("[data-session=%s] .menu").hidePopover()`, session))
				}
			}
			p.run(`document.querySelector("[data-session=rstudio] [aria-label^='Start with']").click()`)
			p.shows("#dialog", "Start rstudio with")
			must.Do(p.t, p.page.Until(p.ctx, `document.querySelector("#dialog input").placeholder === "4 h, as in the script" && document.querySelector("[list=of-account]").list.options.length === 2`))
			p.shows("#dialog", "Cost: 4 GPU-hours")
			p.pictures("start-with")
			p.run(`document.getElementById("dialog-no").click()`)
		}
		if sessions == 31 {
			p.run(`location.hash = "jobs"`)
			p.run(`document.querySelector(".group input").click(), document.querySelector(".fold").click()`)
			p.shows("#jobs-end", "End 200 jobs")
			p.pictures("jobs-selected")
		}
		p.run(`location.hash = "overview"`)
		close(stop)
		p.shows("#needs", "The agent has stopped")
		p.shows("#link", "last known 14:44")
		p.pictures(fmt.Sprintf("dead-%d", sessions))
		if problems := p.page.Problems(); len(problems) > 0 {
			t.Errorf("the page has problems: %q", problems)
		}
		for name, query := range map[string]string{"button": "", "locked": "?locked", "no-browser": "?browser"} {
			if sessions == 1 {
				must.Do(p.t, p.page.Navigate(p.ctx, "http://"+s.door+"/"+query))
				p.shows("button.main", "Open the dashboard")
				p.pictures(name)
			}
		}
	}
}

// TestPageOfTheReadmeInARealBrowser draws the page for the README. The agent is made up and
// the clock stands still, so that the picture changes only with the page.
func TestPageOfTheReadmeInARealBrowser(t *testing.T) {
	p := newPainter(t)
	_, link := serveWith(t, Options{Client: agentWith(t, pictureAgent(4, nil))})
	must.Do(p.t, p.page.Size(p.ctx, 1200, 900))
	must.Do(p.t, p.page.Navigate(p.ctx, link))
	for selector, texts := range map[string][]string{
		"#link":                    {"Live"},
		"#cards .state":            {"Ready", "Queued"},
		"#rest .state":             {"Down"},
		"#cards .bar .text":        {"1 h 21 min left, ends 16:05", "Memory 21 GB of 64 GB"},
		"#cards .spark figcaption": {"CPU", "GPU", "Traffic"},
		"#cards .cause":            {"waiting for free nodes"},
		"#cards .command code":     {"http://localhost:8888/lab"},
		"#hosts":                   {"Connected", "def-alice: 1,234.5 of 2,000 GPU-hours used"},
	} {
		for _, text := range texts {
			p.shows(selector, text)
		}
	}
	if problems := p.page.Problems(); len(problems) > 0 {
		t.Fatalf("the page has problems: %q", problems)
	}
	// The picture ends below the sessions.
	var height int
	must.Do(p.t, p.page.Evaluate(p.ctx, `Math.ceil(document.getElementById("rest").getBoundingClientRect().bottom) + 16`, &height))
	must.Do(p.t, p.page.Size(p.ctx, 1200, height))
	p.picture(filepath.Join("..", "..", "docs", "images", "dashboard.png"))
}
