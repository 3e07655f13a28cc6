package agent

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

// usageKept is how long what a job used is kept, and usageSpacing how far apart at least
// the samples are that are kept.
const (
	usageKept    = time.Hour
	usageSpacing = 20 * time.Second
)

// usageHub knows who looks at what jobs use, and gives them each sample.
type usageHub struct {
	mu      sync.Mutex
	streams map[chan api.Usage]string // the session that each client looks at; "": all
	changed chan struct{}             // closed when one comes or goes
}

// usageBuffer is how many samples may wait for a slow client.
const usageBuffer = 64

func newUsageHub() *usageHub {
	return &usageHub{streams: map[chan api.Usage]string{}, changed: make(chan struct{})}
}

func (h *usageHub) add(session string) chan api.Usage {
	samples := make(chan api.Usage, usageBuffer)
	h.change(func() { h.streams[samples] = session })
	return samples
}

func (h *usageHub) remove(samples chan api.Usage) { h.change(func() { delete(h.streams, samples) }) }

func (h *usageHub) change(streams func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	streams()
	close(h.changed)
	h.changed = make(chan struct{})
}

// looking reports whether somebody looks at a session, and returns the channel that is
// closed when that may have changed.
func (h *usageHub) looking(session string) (looked bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.streams {
		looked = looked || at == "" || at == session
	}
	return looked, h.changed
}

// publish gives a sample to everybody who looks at its session. It drops what a slow client
// has no room for.
func (h *usageHub) publish(u api.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for samples, at := range h.streams {
		if at == "" || at == u.Session {
			select {
			case samples <- u:
			default:
			}
		}
	}
}

// usageLog is what a session's job used in the last hour.
type usageLog struct {
	mu      sync.Mutex
	samples []api.Usage
}

// add keeps a sample. It replaces the last one if that is too close to the one before.
func (l *usageLog) add(u api.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 1 && l.samples[n-1].Time.Sub(l.samples[n-2].Time) < usageSpacing {
		l.samples = l.samples[:n-1]
	}
	l.samples = append(l.samples, u)
	l.samples = slices.DeleteFunc(l.samples, func(x api.Usage) bool { return u.Time.Sub(x.Time) >= usageKept })
}

func (l *usageLog) all() []api.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.samples)
}

func (l *usageLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = nil
}

// handleUsage streams what the jobs of all sessions use, or that of one: first the samples
// of the last hour, then each new one. While it runs, somebody looks. With known=1 it ends
// after the first part, and nobody looks.
func (a *Agent) handleUsage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("session")
	if name != "" {
		if _, err := a.session(name); err != nil {
			fail(w, err)
			return
		}
	}
	known := r.URL.Query().Get("known") != ""
	var samples chan api.Usage
	if !known {
		samples = a.usage.add(name)
		defer a.usage.remove(samples)
	}
	out := newLines(w)
	sent := map[string]time.Time{} // by session, when the last sample was
	for _, s := range a.live() {
		if name != "" && name != s.name {
			continue
		}
		for _, u := range s.meter.log.all() {
			if out.send(u) != nil {
				return
			}
			sent[s.name] = u.Time
		}
	}
	if out.ctl.Flush() != nil || known { // the client knows now that the stream is open
		return
	}
	for {
		select {
		case u := <-samples:
			if u.Time.After(sent[u.Session]) && out.send(u) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
