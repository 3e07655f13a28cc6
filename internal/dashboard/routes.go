package dashboard

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/show"
)

//go:embed assets
var assets embed.FS

func (s *Server) routes() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.Handle("GET /locked", http.RedirectHandler(s.lockedURL(), http.StatusSeeOther))
	mux.HandleFunc("POST "+enterPath, s.enter)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/log", s.log)
	mux.HandleFunc("GET /api/jobs", answer(s.jobs))
	mux.HandleFunc("GET /api/balances", answer(func(r *http.Request) (any, error) { return s.Client.Balances(r.Context()) }))
	mux.HandleFunc("GET /api/history", answer(func(r *http.Request) (any, error) { return s.Client.History(r.Context()) }))
	mux.HandleFunc("GET /api/sessions/{name}/choices", answer(s.choices))
	mux.HandleFunc("POST /api/sessions/{name}/open", act(s.open))
	mux.HandleFunc("POST /api/sessions/{name}/copy", act(s.copyAddress))
	mux.HandleFunc("POST /api/sessions/{name}/start", act(s.start))
	mux.HandleFunc("POST /api/sessions/{name}/extend", act(s.extend))
	mux.HandleFunc("POST /api/sessions/{name}/disconnect", act(s.down(false)))
	mux.HandleFunc("POST /api/sessions/{name}/end", act(s.down(true)))
	mux.HandleFunc("POST /api/hosts/{name}/login", act(s.login))
	mux.HandleFunc("POST /api/hosts/{name}/logout", act(s.logout))
	mux.HandleFunc("POST /api/hosts/{name}/jobs/{id}/end", act(s.endJob))
	return mux
}

// answer makes a handler from a function whose result is sent as JSON.
func answer(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := f(r)
		if err != nil {
			fail(w, err)
			return
		}
		writeJSON(w, out)
	}
}

// actRequest has what some actions need.
type actRequest struct {
	Endpoint string      `json:"endpoint,omitempty"` // to open or copy, in place of the main one
	With     api.Choices `json:"with,omitempty"`     // of a start
	Job      string      `json:"job,omitempty"`      // of a start: one of the session's candidates
	Adopt    bool        `json:"adopt,omitempty"`    // of a start: submit nothing
	Seconds  int64       `json:"seconds,omitempty"`  // of an extension
}

// actResponse says in words what an action has done, where the page does not see it.
type actResponse struct {
	Text string `json:"text,omitempty"`
}

// act makes a handler from an action on the session or the host that the path names. A click
// counts, even if the page is closed at once.
func act(do func(r *http.Request, req actRequest) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req actRequest
		if !readJSON(w, r, &req) {
			return
		}
		text, err := do(r.WithContext(context.WithoutCancel(r.Context())), req)
		if err != nil {
			fail(w, err)
			return
		}
		writeJSON(w, actResponse{text})
	}
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

func (s *Server) extend(r *http.Request, req actRequest) (string, error) {
	if req.Seconds <= 0 {
		return "", api.Errorf(api.CodeUsage, "the extension must be greater than zero")
	}
	return action.Extend(r.Context(), s.Client, r.PathValue("name"), time.Duration(req.Seconds)*time.Second)
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
		return show.Sentence(strings.Join(lines, "; "), r.PathValue("name")), err
	}
}

func (s *Server) endJob(r *http.Request, _ actRequest) (string, error) {
	job, err := s.Client.Cancel(r.Context(), r.PathValue("name"), r.PathValue("id"))
	return show.Sentence(action.CancelledText(job)), err
}

// login connects to a host. What only a person can answer is asked by the tray if it runs, else in
// a terminal window.
func (s *Server) login(r *http.Request, _ actRequest) (string, error) {
	host := r.PathValue("name")
	st, err := s.Client.Status(r.Context())
	if err != nil {
		return "", err
	}
	asks := slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State == api.HostNeedsLogin })
	switch {
	case !asks:
		_, err = s.Client.Login(r.Context(), host)
		return "", err
	case st.Agent != nil && st.Agent.Desktop:
		_, err = s.Client.Login(r.Context(), host)
		return "Answer in the dialog on your desktop.", err
	}
	return "Log in in the terminal window that opens.", s.LoginWindow(r.Context(), host)
}

func (s *Server) logout(r *http.Request, _ actRequest) (string, error) {
	return "", s.Client.Logout(r.Context(), r.PathValue("name"))
}

func (s *Server) choices(r *http.Request) (any, error) {
	return s.Client.ChoicesAndScript(r.Context(), r.PathValue("name"))
}

// jobs lists the jobs of all hosts. No scheduler is queried.
func (s *Server) jobs(r *http.Request) (any, error) {
	st, err := s.Client.Status(r.Context())
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, h := range st.Hosts {
		hosts = append(hosts, h.Alias)
	}
	return s.Client.LastJobsOf(r.Context(), hosts)
}

func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		writeError(w, http.StatusBadRequest, api.Errorf(api.CodeUsage, "cannot read the request: %v", err))
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // on an error the page was closed
}

var statuses = map[api.Code]int{
	api.CodeUsage: http.StatusBadRequest, api.CodeUnknownSession: http.StatusNotFound, api.CodeUnknownHost: http.StatusNotFound,
	api.CodeNotReady: http.StatusConflict, api.CodeConfig: http.StatusConflict,
}

// fail sends an error in words a person can act on.
func fail(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = api.Errorf(api.CodeFailed, "%s", api.Redact(err.Error()))
	}
	status := cmp.Or(statuses[e.Code], http.StatusInternalServerError)
	if errors.Is(err, client.ErrNotRunning) {
		status = http.StatusBadGateway
	}
	writeError(w, status, e)
}

func writeError(w http.ResponseWriter, status int, e *api.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(e)
}
