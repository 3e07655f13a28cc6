package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/internal/show"
	"tunctl/internal/words"
)

const (
	agentRetry = 2 * time.Second // between looks for an agent that is not running
	beatEvery  = 5 * time.Second // between signs of life for a page that somebody looks at
)

// The types of lines that are not events of the agent.
const (
	lineHello     = "hello"      // the first line
	lineAgentGone = "agent-gone" // the agent is not running, or cannot be reached
	lineBeat      = "beat"       // the agent responds
	lineUsage     = "usage"      // the use of a session's job
	lineError     = "error"      // the last line of a log that could not be read further
)

// line is a line that is not an event of the agent.
type line struct {
	Type   string     `json:"type"`
	Server string     `json:"server,omitempty"` // of hello: proves that the server is the page's own
	Words  any        `json:"words,omitempty"`  // of hello: for the states of jobs
	Usage  *api.Usage `json:"usage,omitempty"`
	Error  *api.Error `json:"error,omitempty"`
}

// events streams what the agent tells its watchers, a JSON value per line. With ?usage=1 somebody looks at it: then the agent also
// measures, and its figures are in the same stream, since a browser opens only six
// connections to an address.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	looking := r.URL.Query().Get("usage") == "1"
	out := newLines(w, r)
	defer out.cancel()
	out.send(line{Type: lineHello, Server: s.id, Words: words.Jobs})
	for out.ctx.Err() == nil {
		s.watch(out, looking)
		out.send(line{Type: lineAgentGone})
		_ = ctxtime.Sleep(out.ctx, agentRetry) // the loop looks at the context
	}
}

// watch sends the agent's events until it ends. If somebody looks, it also sends figures and signs
// of life, and ends when the agent does not respond any more.
func (s *Server) watch(out *lines, looking bool) {
	ctx, end := context.WithCancel(out.ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	if looking {
		beside.Go(func() {
			_ = s.Client.Usage(ctx, "", false, func(u api.Usage) { out.send(line{Type: lineUsage, Usage: &u}) })
		})
		beside.Go(func() {
			defer end()
			s.beat(ctx, out)
		})
	}
	_ = s.Client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { out.send(newEvent(e, time.Now())) })
}

// beat sends signs of life until the agent does not respond.
func (s *Server) beat(ctx context.Context, out *lines) {
	for ctxtime.Sleep(ctx, beatEvery) == nil {
		if _, err := s.Client.Status(ctx); err != nil {
			return
		}
		out.send(line{Type: lineBeat})
	}
}

// event is an event of the agent, with words that every viewer has.
type event struct {
	api.Event
	Texts     map[string]sessionText `json:"texts,omitempty"`     // of each session in the event
	HostTexts map[string]hostText    `json:"hostTexts,omitempty"` // of each host in the event
}

// sessionText is what is said about a session.
type sessionText struct {
	State   string            `json:"state"`
	Held    []string          `json:"held,omitempty"`
	Cells   string            `json:"cells,omitempty"`
	Charged bool              `json:"charged,omitempty"` // a job of it runs although it is down
	All     string            `json:"all,omitempty"`     // the names of the jobs that are or may be charged
	Others  []string          `json:"others,omitempty"`  // a line for each besides the session's own
	Titles  map[string]string `json:"titles,omitempty"`  // what the user calls the further pages
}

// hostText is what is said about a host.
type hostText struct {
	State string `json:"state"`
	Login string `json:"login,omitempty"` // how that was done
}

func newEvent(e api.Event, now time.Time) event {
	var st api.Status
	if e.Status != nil {
		st = *e.Status
	}
	if e.Session != nil {
		st.Sessions = append(st.Sessions, *e.Session)
	}
	if e.Host != nil {
		st.Hosts = append(st.Hosts, *e.Host)
	}
	out := event{e, map[string]sessionText{}, map[string]hostText{}}
	for _, s := range st.Sessions {
		titles := map[string]string{}
		for _, page := range s.Endpoints {
			titles[page.Name] = page.Title()
		}
		out.Texts[s.Name] = sessionText{
			words.Session(s, now), words.Held(s.Held, now), words.Cells(s.Name, s.Cells), words.IsCharged(s, now), s.LiveText(),
			show.OtherJobs(s, now), titles,
		}
	}
	for _, h := range st.Hosts {
		out.HostTexts[h.Alias] = hostText{words.Host(h), h.LoginMethods()}
	}
	return out
}

// logLines is how many lines of a log are sent at first: enough to look around and search in.
const logLines = 1000

// endJobs ends jobs, and streams how far that is. It does not depend on the page.
func (s *Server) endJobs(w http.ResponseWriter, r *http.Request) {
	var req api.EndJobsRequest
	if err := localapi.Decode(w, r, &req); err != nil {
		localapi.Fail(w, err)
		return
	}
	out := newLines(w, r)
	defer out.cancel()
	if err := s.Client.EndJobs(out.ctx, req.Jobs, func(p api.EndJobsProgress) { out.send(p) }); err != nil && !out.Sent() {
		localapi.Fail(w, err)
	}
}

// log streams the end of the log of a job without its secrets, and what is appended to it; or all of it. An error
// before the first chunk is the response; a later one is the last line.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	query := api.LogQuery{Session: q.Get("session")}
	if query.Session == "" {
		query.Host, query.Job = q.Get("host"), q.Get("job")
	}
	if q.Get("whole") == "" {
		query.Follow, query.Lines, query.Tail = true, true, logLines
	}
	out := newLines(w, r)
	defer out.cancel()
	err := s.Client.Log(out.ctx, query, func(c api.LogChunk) { out.send(c) })
	switch {
	case err == nil, out.ctx.Err() != nil:
	case !out.Sent():
		localapi.Fail(w, err)
	default:
		out.send(line{Type: lineError, Error: api.Errorf(api.CodeFailed, "%s", api.Redact(err.Error()))})
	}
}

// lines writes one JSON value per line. Its context ends with the page.
type lines struct {
	*localapi.Lines
	ctx    context.Context
	cancel context.CancelFunc
}

func newLines(w http.ResponseWriter, r *http.Request) *lines {
	ctx, cancel := context.WithCancel(r.Context())
	return &lines{localapi.NewLines(w), ctx, cancel}
}

func (l *lines) send(v any) {
	if l.Send(v) != nil {
		l.cancel()
	}
}
