package dashboard

import (
	"cmp"
	"context"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lists"
	"tunctl/internal/localapi"
	"tunctl/internal/show"
	"tunctl/internal/words"
)

//go:embed assets
var assets embed.FS

// serveAsset serves the file that the path names.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, assets, path.Join("assets", r.URL.Path)) //nolint:gosec // nothing else is embedded
}

func (s *Server) routes() http.Handler {
	modules, _ := fs.Glob(assets, "assets/*.js") // the pattern is valid
	preload := lists.Map(modules, func(file string) string {
		return "<" + path.Base(file) + ">; rel=modulepreload; fetchpriority=low"
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", serveAsset)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Link"] = preload // else a module is loaded only after the one that imports it
		serveAsset(w, r)
	})
	mux.Handle("GET /locked", http.RedirectHandler(s.lockedURL(), http.StatusSeeOther))
	mux.HandleFunc("POST "+enterPath, s.enter)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/log", s.log)
	query(mux, "jobs", s.jobs)
	query(mux, "balances", func(r *http.Request) ([]api.HostBalances, error) { return s.Client.Balances(r.Context()) })
	query(mux, "history", func(r *http.Request) (api.HistoryResponse, error) { return s.Client.History(r.Context()) })
	query(mux, "sessions/{name}/choices", func(r *http.Request) (api.ChoicesResponse, error) {
		return s.Client.Choices(r.Context(), r.PathValue("name"), true)
	})
	act(mux, "sessions/{name}/open", s.open)
	act(mux, "sessions/{name}/copy", s.copyAddress)
	act(mux, "sessions/{name}/start", s.start)
	act(mux, "sessions/{name}/preview", s.preview)
	act(mux, "sessions/{name}/extend", s.extend)
	act(mux, "sessions/{name}/disconnect", s.down(false))
	act(mux, "sessions/{name}/end", s.down(true))
	act(mux, "hosts/{name}/login", s.login)
	act(mux, "hosts/{name}/logout", func(r *http.Request, _ actRequest) (string, error) {
		return "", s.Client.Logout(r.Context(), r.PathValue("name"))
	})
	query(mux, "hosts/{name}/jobs/{id}", s.jobFacts)
	mux.HandleFunc("POST /api/end-jobs", s.endJobs)
	return mux
}

// actRequest has what some actions need.
type actRequest struct {
	Endpoint string      `json:"endpoint,omitempty"` // to open or copy, in place of the main one
	With     api.Choices `json:"with,omitempty"`     // of a start or a preview
	Start    bool        `json:"start,omitempty"`    // of a preview: ask the scheduler when
	Job      string      `json:"job,omitempty"`      // of a start: one of the session's candidates
	Adopt    bool        `json:"adopt,omitempty"`    // of a start: submit nothing
	Seconds  int64       `json:"seconds,omitempty"`  // of an extension
	Idle     bool        `json:"idle,omitempty"`     // in place of that: the job counts as used now
}

// actResponse says in words what an action has done, where the page does not see it.
type actResponse struct {
	Text string `json:"text,omitempty"`
}

// act serves an action on the session or the host that the path names. A click counts, even if
// the page is closed at once.
func act(mux *http.ServeMux, at string, do func(r *http.Request, req actRequest) (string, error)) {
	localapi.HandleAt(mux, api.Call[actRequest, actResponse]("POST /api/"+at), func(r *http.Request, req actRequest) (actResponse, error) {
		text, err := do(r.WithContext(context.WithoutCancel(r.Context())), req)
		return actResponse{text}, err
	})
}

// query serves what the page asks for.
func query[Out any](mux *http.ServeMux, at string, f func(r *http.Request) (Out, error)) {
	localapi.HandleAt(mux, api.Call[api.None, Out]("GET /api/"+at), func(r *http.Request, _ api.None) (Out, error) { return f(r) })
}

// open opens a page. Its address and its password never leave this process for the
// dashboard's page.
func (s *Server) open(r *http.Request, req actRequest) (string, error) {
	session := r.PathValue("name")
	text, err := s.Desktop.OpenPage(r.Context(), s.Client, action.Page{Session: session, Endpoint: req.Endpoint})
	return cmp.Or(text, "Opened "+session+" in another tab or window."), err
}

func (s *Server) copyAddress(r *http.Request, req actRequest) (string, error) {
	return s.Desktop.CopyAddress(r.Context(), s.Client, action.Page{Session: r.PathValue("name"), Endpoint: req.Endpoint})
}

func (s *Server) start(r *http.Request, req actRequest) (string, error) {
	_, err := s.Client.Up(r.Context(), api.UpRequest{Session: r.PathValue("name"), With: req.With, Job: req.Job, Adopt: req.Adopt})
	return "", err
}

// preview says what a start would cost and, if that is asked for, when the job would start.
func (s *Server) preview(r *http.Request, req actRequest) (text string, err error) {
	query := api.PreviewRequest{Session: r.PathValue("name"), With: []api.Choices{req.With}, NoStart: !req.Start}
	err = s.Client.Preview(r.Context(), query, func(p api.Preview) { text = show.PreviewText(p, time.Now()) })
	return text, err
}

func (s *Server) extend(r *http.Request, req actRequest) (string, error) {
	return action.Extend(r.Context(), s.Client, api.ExtendRequest{Session: r.PathValue("name"), Seconds: req.Seconds, Idle: req.Idle})
}

// down disconnects a session and, with cancel, ends its job.
func (s *Server) down(cancel bool) func(r *http.Request, _ actRequest) (string, error) {
	return func(r *http.Request, _ actRequest) (string, error) {
		before, _ := s.Client.Status(r.Context()) // down itself says what is wrong
		done, err := s.Client.Down(r.Context(), api.DownRequest{Session: r.PathValue("name"), Cancel: cancel})
		lines := action.DownTexts(done, before, time.Now())
		if len(lines) < 2 { // the page shows what becomes of one job
			return "", err
		}
		return words.Sentence(strings.Join(lines, "; "), r.PathValue("name")), err
	}
}

// jobFacts are names and values of what the scheduler reports of a job.
func (s *Server) jobFacts(r *http.Request) ([][2]string, error) {
	job, err := s.Client.Job(r.Context(), r.PathValue("name"), r.PathValue("id"))
	facts := show.JobFacts(job, api.HostLabel(r.PathValue("name")), time.Now())
	return slices.DeleteFunc(facts, func(fact [2]string) bool { return fact[1] == "" }), err
}

// login connects to a host. What only the user can answer is asked by the tray if it runs, else in
// a terminal window.
func (s *Server) login(r *http.Request, _ actRequest) (string, error) {
	host := r.PathValue("name")
	st, err := s.Client.Status(r.Context())
	if err != nil {
		return "", err
	}
	asks := slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State == api.HostNeedsLogin })
	if asks && (st.Agent == nil || !st.Agent.Desktop) {
		return "Log in in the terminal window that opens.", s.LoginWindow(r.Context(), host)
	}
	_, err = s.Client.Login(r.Context(), host)
	if asks {
		return "Answer in the dialog on your desktop.", err
	}
	return "", err
}

// jobs lists the jobs of all hosts. No scheduler is queried.
func (s *Server) jobs(r *http.Request) ([]client.HostJobs, error) {
	st, err := s.Client.Status(r.Context())
	if err != nil {
		return nil, err
	}
	return s.Client.LastJobsOf(r.Context(), lists.Map(st.Hosts, func(h api.Host) string { return h.Alias }))
}
