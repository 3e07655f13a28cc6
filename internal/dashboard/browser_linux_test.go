package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
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
		s.Job, s.Others = &ended, []api.Job{other}
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
	now := time.Now()
	run := func(id string, nodes int) api.Run {
		return api.Run{Session: "nb", Host: "mycluster", Nodes: nodes, Noted: now, Job: api.Job{ID: id, State: api.JobFinished, Start: now.Add(-3 * time.Hour), End: now}}
	}
	runs := []api.Run{run("206", 4), run("207", 0)}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/watch", watched(&api.Status{Hosts: []api.Host{}, Sessions: []api.Session{}}))
	routes.HandleFunc("GET /v1/history", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.HistoryResponse{Runs: runs, Weeks: state.Summarize(runs)})
	})
	page := pageOf(t, routes)
	must.Do(t, page.Until(t.Context(), `document.getElementById("link")?.textContent === "Live"`))
	must.Do(t, page.Evaluate(t.Context(), `location.hash = "history"`, nil))
	must.Do(t, page.Until(t.Context(), `document.getElementById("totals").textContent === "This week 3 h and 12 node-hours; last week 0 h"`))
	must.Do(t, page.Until(t.Context(), `document.querySelector("#weeks > :last-child").title.endsWith(": 2 jobs, 3 h and 12 node-hours")`))
	if problems := page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
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
