package session

import (
	"context"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/internal/usage"
)

// measured is a session for its meter.
type measured struct{ session *Session }

// Run implements usage.Source.
func (m measured) Run() usage.Run {
	nodes, err := m.session.RunningNodes()
	if err != nil {
		return nil
	}
	return nodes
}

// Traffic implements usage.Source.
func (m measured) Traffic() (in, out, conns int64) {
	m.session.mu.Lock()
	list := m.session.pages.forwards.Status()
	m.session.mu.Unlock()
	for _, f := range list {
		in, out, conns = in+f.BytesIn, out+f.BytesOut, conns+f.Conns
	}
	return in, out, conns
}

// IdleAfter implements usage.Source.
func (m measured) IdleAfter() time.Duration { return m.session.Config().Idle }

// PageUsed implements usage.Source.
func (m measured) PageUsed(ctx context.Context) (time.Time, error) {
	m.session.mu.Lock()
	r := m.session.pages.route
	m.session.mu.Unlock()
	if r == nil {
		return time.Time{}, nil
	}
	return r.LastUsed(ctx)
}

// SetIdle implements usage.Source. The notice follows the state that says so: without that, it is
// withdrawn.
func (m measured) SetIdle(text string) {
	idle := text != ""
	if m.session.Facts().Idle != idle {
		m.session.Change(func(f *facts.Facts) { f.Idle = idle })
	}
	if idle {
		m.session.Notify(api.NoticeIdle, text)
	}
}
