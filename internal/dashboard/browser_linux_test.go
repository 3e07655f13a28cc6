package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
)

// leaves is a server that leaves everything in a browser that it can: a cookie, stored values, and a
// service worker that answers for every address of its origin.
func leaves(t *testing.T, port int) (end func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must.Do(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `oninstall = () => skipWaiting(); onactivate = (e) => e.waitUntil(clients.claim());
				onfetch = (e) => { if (new URL(e.request.url).host === location.host) e.respondWith(new Response("<title>theirs</title>", {headers: {"Content-Type": "text/html"}})); };`)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "theirs", Value: "1", Domain: "localhost", MaxAge: 3600})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>before</title><script>localStorage.setItem("tunctl-bearer", "theirs"); navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => { document.title = "left"; })</script>`)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return func() {
		_ = srv.Close()
		<-served
	}
}

// newPage is an empty page of a real browser.
func newPage(ctx context.Context, t *testing.T) *chromium.Page {
	t.Helper()
	real.Need(t, "browser")
	b, err := chromium.Start()
	must.Do(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	page, err := b.NewPage(ctx)
	must.Do(t, err)
	return page
}

// pageOf is the dashboard of an agent that answers as routes do.
func pageOf(t *testing.T, routes http.Handler) *chromium.Page {
	t.Helper()
	_, link := serveWith(t, Options{Client: agentWith(t, routes)})
	page := newPage(t.Context(), t)
	must.Do(t, page.Navigate(t.Context(), link))
	return page
}

// watched answers a watch with one status.
func watched(st *api.Status) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Event{Type: api.EventStatus, Time: time.Now(), Status: st})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// TestPageReconnect: the job may have ended since the page was told of it.
func TestPageReconnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	end := time.Now().Add(time.Hour)
	st := api.Status{Hosts: []api.Host{}, Sessions: []api.Session{
		{Name: "left", Host: "mycluster", State: api.SessionDown, Job: &api.Job{ID: "206", State: api.JobRunning, End: end}, Forwards: []api.Forward{}},
		{Name: "new", Host: "mycluster", State: api.SessionDown, Forwards: []api.Forward{}},
	}}
	asked := make(chan api.UpRequest, 1)
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("POST /v1/up", func(w http.ResponseWriter, r *http.Request) {
		var req api.UpRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		asked <- req
		_ = json.NewEncoder(w).Encode(api.UpResponse{})
	})
	page := pageOf(t, routes)
	must.Do(t, page.Until(ctx, `document.querySelector("[data-session=left]")?.dataset.kind === "charged" && document.querySelector("[aria-label='End the job of left']").checkVisibility()`))
	must.Do(t, page.Until(ctx, `document.title === "left: Disconnected · tunctl dashboard" && document.getElementById("icon").getAttribute("href") === "icon-charged.svg"`))
	for button, want := range map[string]api.UpRequest{
		"Reconnect left": {Session: "left", Adopt: true},
		"Start new":      {Session: "new"},
	} {
		find := fmt.Sprintf(`document.querySelector("[aria-label='%s']")`, button)
		must.Do(t, page.Until(ctx, find+"?.checkVisibility()"))
		must.Do(t, page.Evaluate(ctx, find+".click()", nil))
		select {
		case got := <-asked:
			if got.Session != want.Session || got.Adopt != want.Adopt {
				t.Errorf("%s: %+v, want %+v", button, got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s asks the agent for nothing", button)
		}
	}
}

func TestPageNotices(t *testing.T) {
	s := api.Session{Name: "nb", Host: "mycluster", State: api.SessionReady, Job: &api.Job{ID: "206", State: api.JobRunning, End: time.Now().Add(time.Hour)}, Forwards: []api.Forward{}}
	extended, fixed := make(chan struct{}), make(chan struct{})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
		out := localapi.NewLines(w)
		_ = out.Send(api.Event{Type: api.EventStatus, Time: time.Now(), Status: &api.Status{Hosts: []api.Host{}, Sessions: []api.Session{s}}})
		_ = out.Send(api.Event{Type: api.EventNotice, Time: time.Now(), Notice: &api.Notice{Kind: api.NoticeTimeLimit, Session: "nb", Text: "nb ends at 16:05: save your work"}})
		wrong := api.Status{Hosts: []api.Host{}, Sessions: []api.Session{s}, Config: &api.Problem{Message: "config.toml:3:1\n  3 | hots\n    | ^"}}
		_ = out.Send(api.Event{Type: api.EventStatus, Time: time.Now(), Status: &wrong})
		_ = out.Send(api.Event{Type: api.EventNotice, Time: time.Now(), Notice: &api.Notice{Kind: api.NoticeConfig, Text: "the config has errors: config.toml:3:1"}})
		<-fixed
		_ = out.Send(api.Event{Type: api.EventStatus, Time: time.Now(), Status: &api.Status{Hosts: []api.Host{}, Sessions: []api.Session{s}}})
		<-extended
		job := *s.Job
		job.End = job.End.Add(time.Hour)
		s.Job = &job
		_ = out.Send(api.Event{Type: api.EventSession, Time: time.Now(), Session: &s})
		<-r.Context().Done()
	})
	page := pageOf(t, routes)
	const notices = `[...document.querySelectorAll("#needs .notice p")].map((e) => e.textContent).join("|") === `
	const ends = "nb ends at 16:05: save your work"
	must.Do(t, page.Until(t.Context(), notices+`"The config file has errors; changes take effect once they are fixed: config.toml:3:1|`+ends+`"`))
	must.Do(t, page.Until(t.Context(), `document.querySelector("#needs pre").textContent === "  3 | hots\n    | ^"`))
	close(fixed)
	must.Do(t, page.Until(t.Context(), notices+`"`+ends+`"`))
	close(extended)
	must.Do(t, page.Until(t.Context(), `!document.querySelector("#needs .notice")`))
}

func TestPageKeep(t *testing.T) {
	st := api.Status{Hosts: []api.Host{}, Sessions: []api.Session{{
		Name: "nb", Host: "mycluster", State: api.SessionReady, Job: &api.Job{ID: "206", State: api.JobRunning}, IdleEnd: time.Now().Add(time.Hour), Forwards: []api.Forward{},
	}}}
	asked := make(chan api.ExtendRequest, 1)
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("POST /v1/extend", func(w http.ResponseWriter, r *http.Request) {
		var req api.ExtendRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		asked <- req
		_ = json.NewEncoder(w).Encode(api.JobResponse{Job: *st.Sessions[0].Job})
	})
	page := pageOf(t, routes)
	const keep = `document.querySelector("[aria-label='Keep the job of nb']")`
	must.Do(t, page.Until(t.Context(), keep+"?.checkVisibility()"))
	must.Do(t, page.Evaluate(t.Context(), keep+".click()", nil))
	if got := <-asked; got != (api.ExtendRequest{Session: "nb", Idle: true}) {
		t.Errorf("it asks for %+v", got)
	}
	must.Do(t, page.Until(t.Context(), `document.body.textContent.includes("Job 206 counts as used now")`))
}

func TestPageOtherJobs(t *testing.T) {
	running := func(id string) api.Job {
		return api.Job{ID: id, State: api.JobRunning, End: time.Now().Add(time.Hour)}
	}
	own := running("206")
	st := api.Status{Hosts: []api.Host{}, Sessions: []api.Session{
		{Name: "nb", Host: "mycluster", State: api.SessionReady, Job: &own, Others: []api.Job{running("207")}, Forwards: []api.Forward{}},
		{Name: "left", Host: "mycluster", State: api.SessionDown, Pending: true, Forwards: []api.Forward{}},
	}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("POST /v1/down", func(w http.ResponseWriter, _ *http.Request) {
		s := st.Sessions[0]
		ended, other := own, running("207")
		ended.State, other.State = api.JobCancelled, api.JobCancelled
		s.State, s.Job, s.Others = api.SessionDown, &ended, []api.Job{other}
		_ = json.NewEncoder(w).Encode(api.DownResponse{Sessions: []api.Session{s}})
	})
	page := pageOf(t, routes)
	must.Do(t, page.Until(t.Context(), `document.querySelector("[aria-label='Other jobs of nb']")?.textContent.startsWith("Also: job 207 on mycluster is running and is charged until ")`))
	must.Do(t, page.Until(t.Context(), `document.querySelector("[aria-label='Other jobs of left']")?.textContent.startsWith("The result of a submission is not known")`))
	must.Do(t, page.Until(t.Context(), `document.querySelector("[data-session=left] .state").textContent === "Disconnected"`))
	must.Do(t, page.Evaluate(t.Context(), `document.querySelector("[aria-label='End the job of nb']").click()`, nil))
	must.Do(t, page.Until(t.Context(), `document.getElementById("dialog-title").textContent === "End job 206 and job 207?"`))
	must.Do(t, page.Evaluate(t.Context(), `document.getElementById("dialog-yes").click()`, nil))
	must.Do(t, page.Until(t.Context(), `document.querySelector(".result")?.textContent.includes("nb is down; job 206 was cancelled; job 207 was cancelled.")`))
}

func TestPageHistory(t *testing.T) {
	page := historyPage(t, false)
	must.Do(t, page.Until(t.Context(), `document.getElementById("totals").textContent === "This week 12 node-hours and 3 h; last week 0 h"`))
	must.Do(t, page.Until(t.Context(), `document.querySelector("#weeks > :last-child").title.endsWith(": 2 jobs, 12 node-hours and 3 h")`))
	must.Do(t, page.Until(t.Context(), `document.querySelectorAll("#weeks > *").length === 1`)) // there was no job before
	if problems := page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}

func TestPageHistoryOfMinutes(t *testing.T) {
	page := historyPage(t, true)
	must.Do(t, page.Until(t.Context(), `document.getElementById("totals").textContent === "This week 5 min; last week 0 h"`))
	must.Do(t, page.Until(t.Context(), `["weeks-top", "weeks-half", "runs-half", "runs-end"].map((id) => document.getElementById(id).textContent).join() === "10 min,5 min,2 min,4 min"`))
	must.Do(t, page.Until(t.Context(), `[...document.querySelectorAll("#runs .text")].map((e) => e.textContent).join() === "Failed: asked 2 h 00 min, used 1 min,Finished: asked 2 h 00 min, used 4 min"`))
	must.Do(t, page.Until(t.Context(), `[...document.querySelectorAll("#weeks .stack span")].map((e) => e.className + e.style.height).join() === "other0%,failed10%,finished40%"`))
}

func historyPage(t *testing.T, short bool) *chromium.Page {
	t.Helper()
	now := time.Now()
	run := func(id string, nodes int) api.Run {
		return api.Run{Session: "nb", Host: "mycluster", Nodes: nodes, Noted: now, Asked: 7200, Job: api.Job{ID: id, State: api.JobFinished, Start: now.Add(-3 * time.Hour), End: now}}
	}
	runs := []api.Run{run("206", 4), run("207", 0)}
	if short {
		runs = []api.Run{run("208", 0), run("209", 0)}
		runs[0].Job.Start, runs[1].Job.Start, runs[1].Job.State = now.Add(-4*time.Minute), now.Add(-time.Minute), api.JobFailed
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&api.Status{Hosts: []api.Host{}, Sessions: []api.Session{}}))
	routes.HandleFunc("GET /v1/history", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.HistoryResponse{Runs: runs, Weeks: state.Summarize(runs)})
	})
	page := pageOf(t, routes)
	must.Do(t, page.Until(t.Context(), `document.getElementById("link")?.textContent === "Live"`))
	must.Do(t, page.Evaluate(t.Context(), `location.hash = "history"`, nil))
	return page
}

func TestPageHeldStreams(t *testing.T) {
	now := time.Now()
	st := api.Status{Hosts: []api.Host{}}
	for name, held := range map[string]*api.Held{
		"waits":     {Since: now, Streams: 3, Waiting: 41_000},
		"continued": {Since: now.Add(-43 * time.Minute), Until: now, Streams: 3},
		"lost":      {Since: now.Add(-5 * time.Minute), Until: now, Lost: 1, Cause: "the job was moved"},
		"long-ago":  {Since: now.Add(-3 * time.Hour), Until: now.Add(-2 * time.Hour), Streams: 3},
		"never":     nil,
	} {
		st.Sessions = append(st.Sessions, api.Session{Name: name, Host: "mycluster", State: api.SessionReady, Held: held, Forwards: []api.Forward{}})
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	page := pageOf(t, routes)
	must.Do(t, page.Until(t.Context(), `document.querySelectorAll("[data-session] h3").length === 5`))
	for name, want := range map[string]string{
		"waits": "mycluster|Held: 3 streams, 41 kB waiting", "continued": "mycluster|Continued after 43 min; nothing was lost",
		"lost": "mycluster|1 stream inside the job ended after 5 min without a connection: the job was moved", "long-ago": "mycluster", "never": "mycluster",
	} {
		var got string
		must.Do(t, page.Evaluate(t.Context(), fmt.Sprintf(`[...document.querySelectorAll("[data-session=%s] .about")].filter((e) => e.checkVisibility()).map((e) => e.textContent).join("|")`, name), &got))
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestPageCells(t *testing.T) {
	st := api.Status{Hosts: []api.Host{}}
	until := time.Now().Add(-2 * time.Hour)
	for name, in := range map[string]api.SessionState{"card": api.SessionReady, "row": api.SessionDown} {
		st.Sessions = append(st.Sessions, api.Session{
			Name: name, Host: "mycluster", State: in, Cells: api.Cells{Finished: 2}, Held: &api.Held{Since: until, Until: until, Streams: 1}, Forwards: []api.Forward{},
		})
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	page := pageOf(t, routes)
	for name, want := range map[string]string{
		"card": "mycluster|2 cells finished while the page was closed: tunctl output card",
		"row":  "mycluster: 2 cells finished while the page was closed: tunctl output row",
	} {
		must.Do(t, page.Until(t.Context(), fmt.Sprintf(`[...document.querySelectorAll("[data-session=%s] .about")].filter((e) => e.checkVisibility()).map((e) => e.textContent).join("|") === %q`, name, want)))
	}
}

func TestPageWithLeftovers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	page := newPage(ctx, t)

	// Another program has the port while the dashboard is down.
	paths := home.In(t.TempDir())
	end := leaves(t, paths.DashboardPort())
	must.Do(t, page.Navigate(ctx, fmt.Sprintf("http://127.0.0.1:%d/", paths.DashboardPort())))
	must.Do(t, page.Until(ctx, `document.title === "left"`))
	end()

	s, link := serveWith(t, Options{Paths: paths, Client: client.New(paths)})
	must.Do(t, page.Navigate(ctx, "http://"+s.door+"/"))
	must.Do(t, page.Until(ctx, `document.title === "theirs"`)) // the worker answers at the port itself
	var answer string
	must.Do(t, page.Evaluate(ctx, fmt.Sprintf(`Promise.allSettled(["/", "/app.js", "/api/jobs"].map((path) => fetch("http://%s" + path))).then((all) => all.map((r) => r.status).join(" "))`, hostOf(link)), &answer))
	if answer != "rejected rejected rejected" {
		t.Errorf("what was left reads from the page: %s", answer)
	}
	must.Do(t, page.Evaluate(ctx, fmt.Sprintf(`new Promise((done) => {
		const f = document.createElement("iframe");
		f.onload = done;
		f.src = "http://%s/";
		document.body.append(f);
	}).then(() => "")`, hostOf(link)), nil))
	if problems := fmt.Sprint(page.Problems()); !strings.Contains(problems, "frame-ancestors") {
		t.Errorf("the page is in a frame: %s", problems)
	}

	must.Do(t, page.Navigate(ctx, link))
	must.Do(t, page.Until(ctx, `document.getElementById("needs")?.textContent.includes("The agent has stopped")`)) // it is in, and says what it is told
	must.Do(t, page.Evaluate(ctx, `[navigator.serviceWorker.controller, document.cookie, localStorage.length, sessionStorage.length, location.hash].join()`, &answer))
	if answer != ",,0,2," {
		t.Errorf("worker, cookies, stored values and fragment are %q", answer)
	}

	// Another program takes the port of a dashboard that has ended, and answers as one.
	must.Do(t, page.Evaluate(ctx, `(() => {
		window.fetch = async (path) => new Response('{"type":"hello","server":"theirs"}\n{"type":"status","status":{"sessions":[],"hosts":[]}}\n', {status: 200});
		document.dispatchEvent(new Event("visibilitychange")); // which begins another stream of events
	})()`, nil))
	must.Do(t, page.Until(ctx, `document.getElementById("needs").textContent.includes("The dashboard has stopped")`))
	must.Do(t, page.Evaluate(ctx, `document.getElementById("link").textContent`, &answer))
	if answer == "Live" {
		t.Error("the page takes another server for its own")
	}
}

func TestPageLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	st := api.Status{Hosts: []api.Host{{Alias: "mycluster", State: api.HostUp}}, Sessions: []api.Session{
		{Name: "nb", Host: "mycluster", State: api.SessionReady, Job: &api.Job{ID: "206", State: api.JobRunning}, Forwards: []api.Forward{}},
	}}
	said, ends := make(chan api.LogChunk), make(chan struct{})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("GET /v1/sessions/nb/log", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "" {
			_ = json.NewEncoder(w).Encode(api.LogChunk{Text: "the whole "})
			_ = json.NewEncoder(w).Encode(api.LogChunk{Base64: []byte("log\xff")})
			return
		}
		for {
			select {
			case c := <-said:
				_ = json.NewEncoder(w).Encode(c)
				_ = http.NewResponseController(w).Flush()
				if c.Ended != "" {
					return
				}
			case <-ends:
				return
			case <-r.Context().Done():
				return
			}
		}
	})
	page := pageOf(t, routes)
	say := func(c api.LogChunk) {
		t.Helper()
		select {
		case said <- c:
		case <-ctx.Done():
			t.Fatal("nobody reads the log")
		}
	}
	shows := func(condition string) {
		t.Helper()
		must.Do(t, page.Until(t.Context(), condition))
	}
	run := func(script string) {
		t.Helper()
		must.Do(t, page.Evaluate(t.Context(), script, nil))
	}
	shows(`document.getElementById("link")?.textContent === "Live"`)
	run(`location.hash = "logs/%E0%A4%A"`) // what is no name is the first
	shows(`document.getElementById("log-status").textContent === "Reading the log of nb…"`)
	var lines []api.LogLine
	for i := range 200 {
		lines = append(lines, api.LogLine{{Text: fmt.Sprintf("İ step %d: loss ", i)}, {Text: "0.5", Style: "bold red"}})
	}
	say(api.LogChunk{Lines: append(lines, api.LogLine{{Text: "10%"}}), Open: true})
	shows(`log.lastElementChild?.textContent === "10%" && document.querySelector("#log .bold.red").textContent === "0.5"`)
	shows(`log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 8`)

	run(`globalThis.first = log.firstElementChild; getSelection().selectAllChildren(first); log.scrollTop = 0`)
	shows(`document.getElementById("log-follow").checkVisibility()`)
	say(api.LogChunk{Lines: []api.LogLine{{{Text: "20%"}}, {{Text: "done"}}}})
	shows(`log.lastElementChild.textContent === "done" && log.childElementCount === 202`)
	shows(`log.scrollTop === 0 && log.firstElementChild === first && getSelection().toString() === "İ step 0: loss 0.5"`)
	run(`document.getElementById("log-follow").click()`)
	shows(`log.scrollTop > 0 && !document.getElementById("log-follow").checkVisibility()`)

	run(`document.getElementById("log-search").value = "STEP 17"; document.getElementById("log-search").dispatchEvent(new Event("input"))`)
	shows(`document.getElementById("log-status").textContent === "11 of 202 lines match." && [...document.querySelectorAll("#log mark")].every((m) => m.textContent === "step 17")`)
	run(`URL.createObjectURL = (blob) => { globalThis.saved = blob; return "#logs/nb"; }; document.getElementById("log-save").click()`)
	shows(`globalThis.saved?.size === 14`)

	ends <- struct{}{} // the agent was killed
	shows(`document.getElementById("log-status").textContent.startsWith("The connection was lost")`)
	say(api.LogChunk{Lines: []api.LogLine{{{Text: "step 17 again"}}}})
	shows(`log.childElementCount === 1 && log.textContent === "step 17 again"`)
	say(api.LogChunk{Ended: "job 206 finished"})
	shows(`document.getElementById("log-status").textContent === "Job 206 finished: the log is complete."`)
	if problems := page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}

func TestPageJobs(t *testing.T) {
	routes := http.NewServeMux()
	st := api.Status{Hosts: []api.Host{{Alias: "mycluster", State: api.HostUp}}, Sessions: []api.Session{}}
	routes.HandleFunc("GET /v1/watch", watched(&st))
	answer := func(pattern string, v any) {
		routes.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	job := api.Job{ID: "206", Name: "b\u202eda", State: api.JobRunning, Reason: "None", End: time.Now().Add(time.Hour)}
	answer("GET /v1/status", st)
	answer("GET /v1/hosts/mycluster/last-jobs", api.JobsResponse{Jobs: []api.Job{job, {ID: "207", State: api.JobQueued}}})
	routes.HandleFunc("GET /v1/hosts/mycluster/jobs/207/log", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	answer("GET /v1/hosts/mycluster/jobs/206", api.JobResponse{Job: job})
	answer("GET /v1/hosts/mycluster/jobs/207", api.JobResponse{Job: api.Job{ID: "207", State: api.JobQueued, Hint: "other jobs come first", Limit: 90 * 60, Asks: "account=def,cpu=4"}})
	asked, goOn := make(chan api.EndJobsRequest, 2), make(chan struct{})
	routes.HandleFunc("POST /v1/end-jobs", func(w http.ResponseWriter, r *http.Request) {
		var req api.EndJobsRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		asked <- req
		_ = json.NewEncoder(w).Encode(api.EndJobsProgress{Done: 1})
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_ = json.NewEncoder(w).Encode(api.EndJobsProgress{Done: 2, Error: api.Errorf(api.CodeFailed, "not permitted")})
	})
	page := pageOf(t, routes)
	do := func(condition, script string) {
		t.Helper()
		must.Do(t, page.Until(t.Context(), condition))
		must.Do(t, page.Evaluate(t.Context(), script, nil))
	}
	do(`document.getElementById("link")?.textContent === "Live"`, `location.hash = "jobs"`)
	do(`document.querySelector("#jobs-rows [aria-label='Select job 206']")?.closest("tr").querySelector(".about").textContent === "bda"`, `document.querySelectorAll("#jobs-rows .fold")[1].click()`)
	do(`document.querySelector("#jobs-rows dl")?.checkVisibility() || [...document.querySelectorAll("#jobs-rows .details")].some((d) => d.textContent.includes("time limit"))`, `document.querySelectorAll("#jobs-rows input").forEach((box) => box.click())`)
	do(`document.querySelector("[aria-label='Log of job 206']").hash === "#logs/mycluster/206"`, `document.querySelectorAll("#jobs-rows .fold")[0].click()`)
	do(`["time limit1 h 30 min", "asks foraccount=def,cpu=4", "reasonother jobs come first"].every((fact) => document.querySelector("#jobs-rows .details").textContent.includes(fact))`, ``)
	do(`document.querySelector("[aria-label='Log of job 207']").hash === "#logs/mycluster/207"`, `document.querySelector("[aria-label='Log of job 207']").click()`)
	do(`document.getElementById("log-status").textContent === "The log of job 207 on mycluster begins when it starts."`, `history.back()`)
	do(`document.getElementById("jobs-end").textContent === "End 2 jobs…"`, `document.getElementById("jobs-end").click()`)
	do(`document.getElementById("dialog-text")?.textContent.endsWith("1 of them runs, and stops at once. Work that is not saved is lost.")`, `document.getElementById("dialog-yes").click()`)
	do(`document.getElementById("jobs-end").textContent === "Ending job 2 of 2…" && document.getElementById("jobs-end").disabled && getComputedStyle(document.getElementById("jobs-end")).opacity < 1`, `document.getElementById("jobs-end").click()`)
	if req := <-asked; len(req.Jobs) != 2 || req.Jobs[0] != (api.EndJob{Host: "mycluster", Job: "207"}) || len(asked) > 0 {
		t.Errorf("asked for %+v, and %d more", req, len(asked))
	}
	close(goOn)
	do(`document.querySelector("#toast .result")?.textContent.startsWith("Could not end 1 job of 2: not permitted")`, ``)
}

func TestPageHostInTrouble(t *testing.T) {
	const cause = "no network; next attempt in 40 s"
	st := api.Status{Hosts: []api.Host{{Alias: "far", State: api.HostWaiting, Cause: cause}}, Sessions: []api.Session{
		{Name: "nb", Host: "far", State: api.SessionReconnecting, Cause: cause, Forwards: []api.Forward{}},
		{Name: "db", Host: "far", State: api.SessionConnecting, Cause: cause, Forwards: []api.Forward{}},
		{Name: "bad", Host: "near", State: api.SessionFailed, Cause: "job 7 failed", Hint: "fix the job script, then run `tunctl up bad` again; `tunctl logs bad` shows the whole log", Forwards: []api.Forward{}},
	}}
	const silent, out = "stuck is not responding since 11:58:00", "you logged out of left"
	st.Hosts = append(st.Hosts, api.Host{Alias: "stuck", State: api.HostUp, NotRespondingSince: time.Now(), Cause: silent}, api.Host{Alias: "left", State: api.HostDown}, api.Host{Alias: "near", State: api.HostUp})
	st.Sessions = append(st.Sessions,
		api.Session{Name: "lab", Host: "stuck", State: api.SessionReconnecting, Cause: silent + "; job 8 reached its time limit at 12:00", Forwards: []api.Forward{}},
		api.Session{Name: "rstudio", Host: "left", State: api.SessionNeedsLogin, Cause: out, Hint: "`tunctl login left` reconnects", Forwards: []api.Forward{}},
		api.Session{Name: "vnc", Host: "left", State: api.SessionNeedsLogin, Cause: out, Hint: "`tunctl login left` reconnects", Forwards: []api.Forward{}},
		api.Session{Name: "idle", Host: "left", State: api.SessionDown, Forwards: []api.Forward{}},
	)
	tried := make(chan struct{}, 1)
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(st) })
	routes.HandleFunc("POST /v1/login", func(w http.ResponseWriter, _ *http.Request) {
		tried <- struct{}{}
		_ = json.NewEncoder(w).Encode(api.Host{Alias: "far"})
	})
	page := pageOf(t, routes)
	must.Do(t, page.Until(t.Context(), `[...document.querySelectorAll("#needs .notice p")].map((e) => e.textContent).join() === "far: no network; next attempt in 40 s,stuck is not responding since 11:58:00,You logged out of left"`))
	must.Do(t, page.Until(t.Context(), `[...document.querySelectorAll("#needs .notice button")].map((e) => e.textContent).join() === "Try now,Try now,Log in…"`))
	must.Do(t, page.Until(t.Context(), `["no network", "not responding since", "logged out of"].every((text) => document.body.textContent.split(text).length === 2)`)) // it is said once
	must.Do(t, page.Until(t.Context(), `["nb", "db", "lab", "rstudio", "vnc"].map((n) => document.querySelector("[data-session=" + n + "] .cause").textContent).join() === "waits for far,waits for far,waits for stuck; job 8 reached its time limit at 12:00,waits for left,waits for left"`))
	must.Do(t, page.Until(t.Context(), `[...document.querySelectorAll(".hint")].map((e) => e.textContent).join() === "Fix the job script"`))
	must.Do(t, page.Evaluate(t.Context(), `document.querySelector("#needs button").click()`, nil))
	wait.For(t, "the host is tried", tried)

	failure := `document.querySelector("[data-session=bad] summary")`
	must.Do(t, page.Evaluate(t.Context(), failure+".click()", nil))
	must.Do(t, page.Until(t.Context(), `document.querySelector("[data-session=bad] .cause").checkVisibility()`))
	must.Do(t, page.Evaluate(t.Context(), failure+".click()", nil))
	must.Do(t, page.Until(t.Context(), `document.querySelector("#rest [data-session=bad] .state").textContent === "Failed"`)) // it was seen
}

func TestPageStartWith(t *testing.T) {
	st := api.Status{Hosts: []api.Host{}, Sessions: []api.Session{{Name: "nb", Host: "mycluster", State: api.SessionDown, Forwards: []api.Forward{}}}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&st))
	routes.HandleFunc("GET /v1/sessions/nb/choices", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.ChoicesResponse{Options: []api.Option{{Name: "hours", Ask: "How many hours?", Script: "0.0667"}, {Name: "qos", Ask: "Which QoS?"}}})
	})
	asked := make(chan api.PreviewRequest, 10)
	routes.HandleFunc("POST /v1/preview", func(w http.ResponseWriter, r *http.Request) {
		var req api.PreviewRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		p := api.Preview{Cost: "4 GPU-hours"}
		if !req.NoStart {
			p.Why = "not known"
		}
		_ = json.NewEncoder(w).Encode(p)
		asked <- req
	})
	var wrong atomic.Bool
	wrong.Store(true)
	routes.HandleFunc("POST /v1/up", func(w http.ResponseWriter, _ *http.Request) {
		if wrong.Load() {
			localapi.Fail(w, api.Errorf(api.CodeUsage, "qos = \"fast\" is too short").WithHint("Which QoS?"))
			return
		}
		_ = json.NewEncoder(w).Encode(api.UpResponse{})
	})
	page := pageOf(t, routes)
	do := func(condition, script string) {
		t.Helper()
		must.Do(t, page.Until(t.Context(), condition))
		must.Do(t, page.Evaluate(t.Context(), script, nil))
	}
	about := `document.querySelector("#dialog-fields .about")?.textContent === `
	do(`document.querySelector("[aria-label^='Start with']")`, `document.querySelector("[aria-label^='Start with']").click()`)
	do(about+`"Cost: 4 GPU-hours if it runs to its time limit."`, `globalThis.fields = document.querySelectorAll("#dialog-fields input")`)
	if req := wait.For(t, "the cost", asked); !req.NoStart {
		t.Errorf("the scheduler is asked: %+v", req)
	}
	do(`fields[0].placeholder === "4 min, as in the script"`, `fields[0].value = "8"; fields[0].dispatchEvent(new Event("change", { bubbles: true }))`)
	if req := wait.For(t, "the cost of a value", asked); req.With[0]["hours"] != "8" || !req.NoStart {
		t.Errorf("asked for %+v", req)
	}
	do(`true`, `document.querySelector("#dialog-fields .presets button").click()`)
	do(about+`"Cost: 4 GPU-hours if it runs to its time limit; start: not known."`, `fields[1].value = "fast"; document.getElementById("dialog-yes").click()`)
	do(`fields[1].parentNode.querySelector(".wrong")?.textContent === 'Qos = "fast" is too short' && fields[1].checkVisibility() && fields[0].value === "8"`, ``)
	wrong.Store(false)
	do(`true`, `document.getElementById("dialog-yes").click()`)
	do(`!document.getElementById("dialog").open`, ``)
}
