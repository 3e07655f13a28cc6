package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/localapi"
	"tunctl/internal/api"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
)

// handleUsage streams what the jobs of all sessions use, or that of one: first the samples
// of the last hour, then each new one. While it runs, somebody looks. With known=1 it ends
// after the first part, and nobody looks.
func (a *Agent) handleUsage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("session")
	if name != "" {
		if _, err := a.session(name); err != nil {
			localapi.Fail(w, err)
			return
		}
	}
	known := r.URL.Query().Get("known") != ""
	var samples chan api.Usage
	if !known {
		samples = a.usage.Subscribe(name)
		defer a.usage.Unsubscribe(samples)
	}
	out := localapi.NewLines(w)
	sent := map[string]time.Time{} // by session, when the last sample was
	for _, s := range a.live() {
		if name != "" && name != s.name {
			continue
		}
		for _, u := range s.meter.Samples() {
			if out.Send(u) != nil {
				return
			}
			sent[s.name] = u.Time
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

// measured is a session for its meter.
type measured struct{ session *session }

// Run implements usage.Source.
func (m measured) Run() usage.Run {
	nodes, err := m.session.runningNodes()
	if err != nil {
		return nil
	}
	return measuredRun{nodes}
}

// Traffic implements usage.Source.
func (m measured) Traffic() (in, out, users int64) {
	m.session.mu.Lock()
	list := m.session.forward.status()
	m.session.mu.Unlock()
	users = int64(m.session.inside.Load())
	for _, f := range list {
		in, out, users = in+f.BytesIn, out+f.BytesOut, users+f.Conns
	}
	return in, out, users
}

// IdleAfter implements usage.Source.
func (m measured) IdleAfter() time.Duration { return m.session.config().Idle }

// PageUsed implements usage.Source.
func (m measured) PageUsed(ctx context.Context) (time.Time, error) { return m.session.pageUsed(ctx) }

// SetIdle implements usage.Source. The notice follows the state that says so: without that, it is
// withdrawn.
func (m measured) SetIdle(text string) {
	idle := text != ""
	if m.session.known().Idle != idle {
		m.session.change(func(f *facts.Facts) { f.Idle = idle })
	}
	if idle {
		m.session.notify(api.NoticeIdle, text)
	}
}

// measuredRun is a run of a session's job for its meter.
type measuredRun struct{ nodes *jobNodes }

// Job implements usage.Run.
func (r measuredRun) Job() api.Job { return r.nodes.current() }

// ID implements usage.Run.
func (r measuredRun) ID() string { return slurmID(r.nodes.current()) }

// Nodes implements usage.Run.
func (r measuredRun) Nodes() int { return len(jobwatch.Nodes(r.nodes.current())) }

// Connected implements usage.Run.
func (r measuredRun) Connected() bool {
	h := r.nodes.host.Status()
	return h.State == api.HostUp && h.NotRespondingSince.IsZero()
}

// CanEnter implements usage.Run: into a job of Slurm, or on a host without a scheduler.
func (r measuredRun) CanEnter(ctx context.Context) (bool, error) {
	scheduler, err := r.nodes.jobs.Scheduler(ctx)
	return scheduler == jobwatch.Slurm || scheduler == jobwatch.None, err
}

// Machine implements usage.Run.
func (r measuredRun) Machine(ctx context.Context) (usage.Machine, error) {
	return r.nodes.machine(ctx, "")
}

// Counted implements usage.Run.
func (r measuredRun) Counted(ctx context.Context) (usage.Reading, error) {
	job := r.nodes.current()
	counted, err := r.nodes.jobs.Usage(ctx, job.Ref())
	reading := usage.Reading{Clock: counted.Elapsed, CPU: counted.CPU, CPUs: counted.CPUs, Memory: counted.Memory, MemoryLimit: counted.MemoryLimit}
	if reading.Clock == 0 && !job.Start.IsZero() {
		reading.Clock = max(0, counted.At.Sub(job.Start))
	}
	return reading, err
}

const (
	// jupyterTimeout bounds a question to a Jupyter server whether it is used.
	jupyterTimeout   = 10 * time.Second
	maxJupyterAnswer = 1 << 20
)

// pageUsed is when the session's Jupyter server or one of its kernels was last
// used; zero: it has none. Both requests are such that the server does not take them for
// a use.
func (s *session) pageUsed(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	r := s.route
	s.mu.Unlock()
	if r == nil || r.inside != nil || r.endpoint.App != "jupyter" {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jupyterTimeout)
	defer cancel()
	var server struct {
		LastActivity time.Time `json:"last_activity"`
		Connections  int       `json:"connections"`
		Kernels      int       `json:"kernels"`
	}
	clock, err := r.jupyter(ctx, "api/status", &server)
	if err != nil {
		return time.Time{}, err
	}
	if server.Connections > 0 {
		return time.Now(), nil
	}
	if server.Kernels > 0 {
		var kernels []struct {
			State string `json:"execution_state"`
		}
		if _, err := r.jupyter(ctx, "api/kernels?no_track_activity=1", &kernels); err != nil {
			return time.Time{}, err
		}
		for _, k := range kernels {
			if k.State == "busy" {
				return time.Now(), nil
			}
		}
	}
	return time.Now().Add(-clock.Sub(server.LastActivity)), nil
}

// jupyter sends a request to the Jupyter server at the route's end, and returns what time
// it is there.
func (r *route) jupyter(ctx context.Context, path string, into any) (clock time.Time, err error) {
	res, err := get(ctx, r.dialer, r.endpoint, "../"+path)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return time.Time{}, errors.New("the server answers " + res.Status)
	}
	if clock, err = http.ParseTime(res.Header.Get("Date")); err != nil {
		clock = time.Now()
	}
	return clock, json.NewDecoder(io.LimitReader(res.Body, maxJupyterAnswer)).Decode(into)
}
