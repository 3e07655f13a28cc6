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
	out.send(line{Type: lineHello, Server: s.id})
	for out.ctx.Err() == nil {
		err := s.watch(out, looking)
		gone := line{Type: lineAgentGone, Error: api.Errorf(api.CodeAgent, "the agent has stopped")}
		if err != nil {
			gone.Error.Message = api.Redact(err.Error())
		}
		out.send(gone)
		_ = ctxtime.Sleep(out.ctx, agentRetry) // the loop looks at the context
	}
}

// watch sends the agent's events until it ends. If somebody looks, it also sends figures and signs
// of life, and ends when the agent does not respond any more.
func (s *Server) watch(out *lines, looking bool) error {
	ctx, end := context.WithCancelCause(out.ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end(nil)
	if looking {
		beside.Go(func() {
			_ = s.Client.Usage(ctx, "", false, func(u api.Usage) { out.send(line{Type: lineUsage, Usage: &u}) })
		})
		beside.Go(func() { end(s.beat(ctx, out)) })
	}
	return s.Client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { out.send(newEvent(e, time.Now())) })
}

// beat sends signs of life until the agent does not respond.
func (s *Server) beat(ctx context.Context, out *lines) error {
	for {
		if err := ctxtime.Sleep(ctx, beatEvery); err != nil {
			return err
		}
		if _, err := s.Client.Status(ctx); err != nil {
			return err
		}
		out.send(line{Type: lineBeat})
	}
}

// event is an event of the agent, with words that every viewer has.
type event struct {
	api.Event
	Titles map[string]string  `json:"titles,omitempty"` // what a person calls the further pages, by SESSION/ENDPOINT
	Jobs   map[string]jobText `json:"jobs,omitempty"`   // of each session in the event
}

// jobText is what is said about the jobs of a session that are or may be charged.
type jobText struct {
	All    string   `json:"all,omitempty"`    // their names
	Others []string `json:"others,omitempty"` // a line for each besides the session's own
}

func newEvent(e api.Event, now time.Time) event {
	var sessions []api.Session
	if e.Status != nil {
		sessions = e.Status.Sessions
	}
	if e.Session != nil {
		sessions = append(sessions, *e.Session)
	}
	out := event{e, map[string]string{}, map[string]jobText{}}
	for _, s := range sessions {
		out.Jobs[s.Name] = jobText{s.LiveText(), show.OtherJobs(s, now)}
		for _, page := range s.Endpoints {
			out.Titles[s.Name+"/"+page.Name] = page.Title()
		}
	}
	return out
}

// logLines is how many lines of a log are sent at first: enough to look around and search in.
const logLines = 1000

// log streams the end of the log of a session's job without its secrets, and what is appended to it. An error
// before the first chunk is the response; a later one is the last line.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	query := api.LogQuery{Session: r.URL.Query().Get("session"), Follow: true, Tail: logLines}
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
