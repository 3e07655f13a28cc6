package agent

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"tunctl/internal/agent/events"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
)

// server answers the requests of the local API: each becomes a call to a session, a host or the
// agent, and events become streams.
type server struct {
	*session.Parts

	paths   home.Paths
	about   api.Agent // but whether it is paused
	prompts *events.Prompts
	sizes   sync.Map           // the jobSize of each session that an assistant asked for
	stop    context.CancelFunc // the agent
	streams sync.Map           // the open ones: *api.OpenStream
}

func (a *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(string(api.CallWatch), a.handleWatch)
	mux.HandleFunc(string(api.CallUsage), a.handleUsage)
	mux.HandleFunc(string(api.CallPreview), a.handlePreview)
	mux.HandleFunc(string(api.CallEndJobs), a.handleEndJobs)
	mux.HandleFunc(string(api.CallLog), a.handleLog)
	mux.HandleFunc(string(api.CallJobLog), a.handleLog)
	mux.HandleFunc(string(api.CallStream), a.handleStream)
	localapi.Handle(mux, api.CallUp, a.Sessions.Up)
	localapi.Handle(mux, api.CallDown, a.handleDown)
	localapi.Handle(mux, api.CallAssistantUp, a.handleAssistantUp)
	localapi.Handle(mux, api.CallAssistantDown, a.handleAssistantDown)
	localapi.Handle(mux, api.CallForward, a.handleForward)
	localapi.Handle(mux, api.CallExtend, a.handleExtend)
	localapi.Handle(mux, api.CallCheck, a.handleCheck)
	localapi.Handle(mux, api.CallRefresh, a.handleRefresh)
	localapi.Handle(mux, api.CallReload, func(context.Context, api.None) (api.None, error) { a.Hosts.Reload(); return api.None{}, nil }) // the ssh config has changed
	localapi.Handle(mux, api.CallAttach, a.handleAttach)
	localapi.Handle(mux, api.CallQuota, a.Hosts.Quota)
	localapi.Handle(mux, api.CallLogin, a.handleLogin)
	localapi.Handle(mux, api.CallLogout, func(_ context.Context, req api.LoginRequest) (api.Host, error) { return a.Hosts.Logout(req.Host) })
	localapi.Handle(mux, api.CallHistory, a.handleHistory)
	localapi.Handle(mux, api.CallStatus, func(context.Context, api.None) (api.Status, error) { return a.status(), nil })
	localapi.Handle(mux, api.CallBalances, func(context.Context, api.None) ([]api.HostBalances, error) { return a.Store.Balances(), nil })
	localapi.Handle(mux, api.CallStop, func(context.Context, api.None) (api.None, error) { a.stop(); return api.None{}, nil })
	localapi.HandleAt(mux, api.CallOpen, ofSession(a, handleOpen))
	localapi.HandleAt(mux, api.CallOpenEndpoint, ofSession(a, handleOpen))
	localapi.HandleAt(mux, api.CallClientPage, ofSession(a, handleClientPage))
	localapi.HandleAt(mux, api.CallKept, ofSession(a, func(s *session.Session, _ *http.Request, req api.KeptRequest) (api.None, error) {
		session.SetFinished(s, req.Cells)
		return api.None{}, nil
	}))
	localapi.HandleAt(mux, api.CallChoices, ofSession(a, a.handleChoices))
	localapi.HandleAt(mux, api.CallAnswer, a.handleAnswer)
	localapi.HandleAt(mux, api.CallScheduler, ofHost(a.Hosts.Scheduler))
	localapi.HandleAt(mux, api.CallOfferKey, ofHost(a.Hosts.OfferKey))
	localapi.HandleAt(mux, api.CallInstallKey, func(r *http.Request, req api.KeyRequest) (api.Key, error) {
		a.Hosts.UseEnv(req.Env)
		return a.Hosts.InstallKey(r.Context(), r.PathValue("host"), req.Plain)
	})
	localapi.HandleAt(mux, api.CallRemoveKey, ofHost(a.Hosts.RemoveKey))
	localapi.HandleAt(mux, api.CallLook, ofHost(a.Hosts.Look))
	localapi.HandleAt(mux, api.CallJobs, a.handleJobs)
	localapi.HandleAt(mux, api.CallLastJobs, a.handleLastJobs)
	localapi.HandleAt(mux, api.CallFree, ofHost(a.Hosts.Free))
	localapi.HandleAt(mux, api.CallSubmit, a.handleSubmitJob)
	localapi.HandleAt(mux, api.CallJob, func(r *http.Request, _ api.None) (api.JobResponse, error) {
		job, err := a.Hosts.Job(r.Context(), r.PathValue("host"), r.PathValue("id"))
		return api.JobResponse{Job: job}, err
	})
	localapi.HandleAt(mux, api.CallCancel, func(r *http.Request, _ api.None) (api.JobResponse, error) {
		job, err := a.cancelJob(r.Context(), r.PathValue("host"), r.PathValue("id"))
		return api.JobResponse{Job: job}, err
	})
	return mux
}

// ofHost answers a request about the host in its path.
func ofHost[Out any](answer func(ctx context.Context, host string) (Out, error)) func(*http.Request, api.None) (Out, error) {
	return func(r *http.Request, _ api.None) (Out, error) { return answer(r.Context(), r.PathValue("host")) }
}

// ofSession answers a request about the session in its path.
func ofSession[In, Out any](a *server, answer func(*session.Session, *http.Request, In) (Out, error)) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (out Out, err error) {
		s, err := a.Sessions.Find(r.PathValue("name"))
		if err != nil {
			return out, err
		}
		return answer(s, r, in)
	}
}

// withConfig refuses a client that insists on another config file than the agent's. Before
// each other request it reloads the config: the next look at the file may be later than the user who
// saves it and types the next command. Only the request to stop must not wait for a file
// system that hangs.
func (a *server) withConfig(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ours := a.paths.Config
		theirs, err := url.QueryUnescape(r.Header.Get(api.ConfigHeader))
		if err == nil && theirs != "" && !sameFile(theirs, ours) {
			localapi.Fail(w, api.Errorf(api.CodeConfig, "the agent is running with the config %s, not with %s", ours, theirs).
				WithHint("`tunctl agent restart` with the same --config or TUNCTL_CONFIG changes that; without both, commands use the agent's file"))
			return
		}
		if r.Method+" "+r.URL.Path != string(api.CallStop) {
			a.Reload()
		}
		next.ServeHTTP(w, r)
	})
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a) //nolint:gosec // the user's own client names it
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (a *server) handleLogin(ctx context.Context, req api.LoginRequest) (api.Host, error) {
	a.Hosts.UseEnv(req.Env)
	h, err := a.Hosts.Login(ctx, req.Host, localapi.Client(ctx))
	if err == nil {
		a.Sessions.Resume()
	}
	return h, err
}

func (a *server) handleHistory(context.Context, api.None) (api.HistoryResponse, error) {
	runs, err := a.History.Runs()
	return api.HistoryResponse{Runs: append([]api.Run{}, runs...), Weeks: state.Summarize(runs)}, err
}

func (a *server) handleAnswer(r *http.Request, answer api.Answer) (api.None, error) {
	return api.None{}, a.prompts.Answer(r.PathValue("id"), answer)
}

// waitingEvery is how often a command that waits is said to wait.
const waitingEvery = 20 * time.Second

// handleWatch streams events: first the whole status, then changes, and the whole status
// again when the config has changed. A command that waits for a session gives its name:
// what it permitted ends with the stream.
func (a *server) handleWatch(w http.ResponseWriter, r *http.Request) {
	var still <-chan time.Time
	if waiter := r.URL.Query().Get("waiter"); waiter != "" {
		defer a.Sessions.Wait(waiter)()
		a.Hosts.Pool.Waiting(true)
		tick := time.NewTicker(waitingEvery)
		defer tick.Stop()
		still = tick.C
	}
	watcher := a.Hub.Subscribe(localapi.Client(r.Context()), api.Answers(r.URL.Query().Get("answers")))
	defer a.Hub.Unsubscribe(watcher)
	out := localapi.NewLines(w)
	next := api.Event{Type: api.EventStatus, Time: time.Now()}
	for {
		if next.Type == api.EventStatus { // read now: the last event of a thing is always its last state
			st := a.status()
			next.Status = &st
		}
		if out.Send(next) != nil {
			return
		}
		for received := false; !received; {
			select {
			case next, received = <-watcher.C:
				if !received {
					return
				}
			case <-still:
				a.Hosts.Pool.Waiting(false)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// status is everything the agent knows.
func (a *server) status() api.Status {
	agent := a.about
	agent.Paused = a.Sessions.Paused()
	agent.Desktop = a.Hub.HasDesktop()
	for s := range a.streams.Range {
		agent.Streams = append(agent.Streams, *s.(*api.OpenStream))
	}
	return api.Status{
		Version:  api.Version,
		Agent:    &agent,
		Config:   a.Settings.Problem(),
		Hosts:    append([]api.Host{}, a.Hosts.All()...),
		Sessions: a.Sessions.All(),
	}
}

// handleUsage streams what the jobs of all sessions use, or that of one: first the samples
// of the last hour, then each new one. While it runs, somebody looks. With known=1 it ends
// after the first part, and nobody looks.
func (a *server) handleUsage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("session")
	if name != "" {
		if _, err := a.Sessions.Find(name); err != nil {
			localapi.Fail(w, err)
			return
		}
	}
	known := r.URL.Query().Get("known") != ""
	var samples chan api.Usage
	if !known {
		samples = a.Usage.Subscribe(name)
		defer a.Usage.Unsubscribe(samples)
	}
	out := localapi.NewLines(w)
	sent := map[string]time.Time{} // by session, when the last sample was
	for _, s := range a.Sessions.Live() {
		if name != "" && name != s.Name {
			continue
		}
		for _, u := range s.Meter.Samples() {
			if out.Send(u) != nil {
				return
			}
			sent[s.Name] = u.Time
		}
	}
	if out.Flush() != nil || known { // the client knows now that the stream is open
		return
	}
	for {
		select {
		case u := <-samples:
			if u.Time.After(sent[u.Session]) && out.Send(u) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
