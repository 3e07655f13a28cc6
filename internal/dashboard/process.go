package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
	"tunctl/internal/localsocket"
)

const (
	startTimeout = 15 * time.Second
	startPoll    = 20 * time.Millisecond
	// requestTimeout is for requests of commands; the longest waits for a browser.
	requestTimeout = arriveFor + 5*time.Second
	// returnFor is how soon an agent that crashed is started again by the system, or never.
	returnFor = 10 * time.Second
	// stopPolls is how often no trace of an agent is seen before it counts as stopped.
	stopPolls = int(time.Second / startPoll)
)

// Run serves the dashboard as a process of its own, until ctx or the agent ends. If another
// process of this home does already, it waits whether that one is about to end.
func Run(ctx context.Context, o Options) error {
	lock := flock.New(o.Paths.DashboardLock())
	defer func() { _ = lock.Close() }()
	if locked, err := takeOver(ctx, lock); err != nil || !locked {
		return err
	}
	s, err := Listen(ctx, o)
	if err != nil {
		return err
	}
	commands, err := localsocket.Listen(ctx, o.Paths.DashboardSocket())
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { _ = localapi.Serve(ctx, commands, s.commandRoutes(), 0, slog.New(slog.DiscardHandler)) })
	beside.Go(func() {
		defer end() // when the agent was stopped, or has crashed and does not return soon
		for returns := true; returns; returns = s.agentReturns(ctx) {
			_ = s.Client.Watch(ctx, api.AnswersNone, "", func(api.Event) {}) // why it ended is seen by agentReturns
		}
	})
	return s.Serve(ctx)
}

// takeOver locks the file of the process that serves.
func takeOver(ctx context.Context, lock *flock.Flock) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, returnFor)
	defer cancel()
	locked, err := lock.TryLockContext(ctx, 5*startPoll)
	if ctx.Err() != nil {
		return false, nil // another process serves
	}
	return locked, err
}

// agentReturns waits for an agent that crashed. One that ends in order removes its trace, and
// one that starts writes its own soon. One of another version has another page.
func (s *Server) agentReturns(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, returnFor)
	defer cancel()
	for absent := 0; absent < stopPolls; {
		if st, err := s.Client.Status(ctx); err == nil {
			return st.Agent != nil && st.Agent.Version == s.Version
		}
		absent++
		if last, _ := s.Paths.Running(); last.PID != 0 {
			absent = 0
		}
		if ctxtime.Sleep(ctx, startPoll) != nil {
			return false
		}
	}
	return false
}

// Link is an address of a new page.
type Link struct {
	URL      string `json:"url"`
	Bookmark string `json:"bookmark,omitempty"` // see [Server.Bookmark]
}

// commandRoutes serve the commands of the same user.
func (s *Server) commandRoutes() http.Handler {
	mux := http.NewServeMux()
	localapi.Handle(mux, api.Call[Link, Link]("POST /link"), func(context.Context, Link) (Link, error) { return Link{s.newLink(), s.Bookmark()}, nil })
	localapi.Handle(mux, api.Call[Link, Link]("POST /fallback"), func(ctx context.Context, link Link) (Link, error) {
		other, err := s.fallbackFor(ctx, link.URL)
		return Link{URL: other}, err
	})
	return mux
}

// Process is the dashboard's process as commands and the tray see it.
type Process struct{ http *http.Client }

// Ensure returns the dashboard's process of a home, and starts it with launch if it does not
// run. Of several that are started at the same time, one stays.
func Ensure(ctx context.Context, paths home.Paths, launch client.Launcher) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dial := func(ctx context.Context) (net.Conn, error) { return localsocket.Dial(ctx, paths.DashboardSocket()) }
	p := &Process{&http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true,
	}}}
	var failed <-chan error
	for started := false; ; {
		conn, err := dial(ctx)
		if err == nil {
			return p, conn.Close()
		}
		if !started {
			if failed, err = launch(ctx); err != nil {
				return nil, fmt.Errorf("cannot start the dashboard: %w", err)
			}
			started = true
		}
		select {
		case err := <-failed:
			return nil, fmt.Errorf("the dashboard failed to start: %w", err)
		case <-ctx.Done():
			return nil, api.Errorf(api.CodeFailed, "the dashboard was started but does not respond").Because(err).
				WithHint("`tunctl agent log` shows why")
		case <-time.After(startPoll):
		}
	}
}

// Link returns an address of a new page, which works once and for ten minutes.
func (p *Process) Link(ctx context.Context) (Link, error) { return p.request(ctx, "/link", Link{}) }

// Open opens a new page in the browser.
func (p *Process) Open(ctx context.Context, open func(ctx context.Context, url string) error) (Link, error) {
	link, err := p.Link(ctx)
	if err != nil {
		return link, err
	}
	return link, openPage(ctx, link.URL, func(ctx context.Context, url string) (string, error) {
		other, err := p.request(ctx, "/fallback", Link{URL: url})
		return other.URL, err
	}, open)
}

func (p *Process) request(ctx context.Context, path string, in Link) (out Link, err error) {
	body, _ := json.Marshal(in) // of strings
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://tunctl"+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	res, err := p.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("the dashboard does not respond: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return out, errors.New("the dashboard answered with " + res.Status)
	}
	return out, json.NewDecoder(res.Body).Decode(&out)
}
