//go:build linux

package e2e

import (
	"context"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

// sighting is a session as the agent told of it, or that there was no agent.
type sighting struct {
	at      time.Time
	noAgent bool
	session api.Session
}

// observer keeps all that the agent tells of a session, through the agent's own ends.
type observer struct {
	mu      sync.Mutex
	seen    []sighting
	changed chan struct{}
}

// observe watches until ctx ends.
func observe(ctx context.Context, c *client.Client, name string) *observer {
	o := &observer{changed: make(chan struct{})}
	go func() {
		retry := time.NewTicker(50 * time.Millisecond)
		defer retry.Stop()
		for ctx.Err() == nil {
			_ = c.Watch(ctx, api.AnswersNone, "", func(e api.Event) { o.hear(e, name) }) // why it ended does not matter
			o.add(sighting{at: time.Now(), noAgent: true})
			select {
			case <-retry.C:
			case <-ctx.Done():
			}
		}
	}()
	return o
}

func (o *observer) hear(e api.Event, name string) {
	if e.Status != nil {
		if s, ok := e.Status.Session(name); ok {
			o.add(sighting{at: time.Now(), session: s})
		}
	}
	if e.Session != nil && e.Session.Name == name {
		o.add(sighting{at: time.Now(), session: *e.Session})
	}
}

func (o *observer) add(s sighting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.seen); s.noAgent && n > 0 && o.seen[n-1].noAgent {
		return
	}
	o.seen = append(o.seen, s)
	close(o.changed)
	o.changed = make(chan struct{})
}

// mark is the place after all that was seen so far.
func (o *observer) mark() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

// await waits for a sighting after a mark, and returns the place after it.
func (o *observer) await(ctx context.Context, mark int, want func(sighting) bool) (sighting, int, bool) {
	for {
		o.mu.Lock()
		seen, changed := o.seen, o.changed
		o.mu.Unlock()
		if i := slices.IndexFunc(seen[mark:], want); i >= 0 {
			return seen[mark+i], mark + i + 1, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sighting{}, mark, false
		}
	}
}

// since is what was seen after a mark.
func (o *observer) since(mark int) []sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen[mark:])
}
