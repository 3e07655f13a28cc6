package forwards

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

const (
	// keepFor is how long the page of a session that is down is kept at most.
	keepFor = time.Hour
	// tabGone is how long no tab has requested anything after the last one was closed. A
	// hidden tab of ours polls once a minute, one of Jupyter every five minutes.
	tabGone = 10 * time.Minute
)

// Kept are the pages of sessions that are down, while a browser has a tab of them: their ports
// stay open, each page tells why the session is down and how to start it, and the tab continues
// after that. The zero value has none.
type Kept struct {
	mu    sync.Mutex
	pages map[string]*keptPage // by session
}

// keptPage is the page of a session that is down.
type keptPage struct {
	local   *forward.Forward
	cancel  context.CancelFunc
	serving sync.WaitGroup // until the port is free
}

// Keep closes the forwards of a session, and keeps its main page if a tab uses it. Until Explain
// is called, the tab waits.
func (k *Kept) Keep(ctx context.Context, set *Set, o Options) {
	page := set.OfPage("")
	set.Close()
	if page == nil || !hasTab(page.Status(), time.Now()) {
		return
	}
	at := o.ListenOptions
	at.Port, at.LocalToken, at.Waiting = page.Local.Port(), nil, nil
	local, err := forward.Listen(at)
	if err != nil {
		return
	}
	if local.Port() != at.Port { // another program has just taken it
		_ = local.Close()
		return
	}
	p := &keptPage{local: local}
	ctx, p.cancel = context.WithCancel(ctx)
	p.serving.Go(func() {
		defer p.cancel()
		_ = local.Serve(ctx)
	})
	p.serving.Go(func() {
		defer p.cancel()
		whileTab(ctx, local.Status)
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pages == nil {
		k.pages = map[string]*keptPage{}
	}
	k.pages[o.Name] = p
}

// Explain shows on the page of a session why it is down.
func (k *Kept) Explain(session string, why forward.Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pages[session]; p != nil {
		p.local.Withdraw(why)
	}
}

// Release frees the port of a session's page, and these ports.
func (k *Kept) Release(session string, ports ...int) {
	k.release(func(name string, p *keptPage) bool { return name == session || slices.Contains(ports, p.local.Port()) })
}

// Close frees all ports.
func (k *Kept) Close() { k.release(func(string, *keptPage) bool { return true }) }

// release frees the ports of some pages.
func (k *Kept) release(which func(session string, p *keptPage) bool) {
	k.mu.Lock()
	var released []*keptPage
	maps.DeleteFunc(k.pages, func(session string, p *keptPage) bool {
		drop := which(session, p)
		if drop {
			released = append(released, p)
		}
		return drop
	})
	k.mu.Unlock()
	for _, p := range released {
		p.cancel()
		p.serving.Wait()
	}
}

// whileTab returns when no tab uses a page any more, after keepFor in any case. A tab that is open
// has time to ask again.
func whileTab(ctx context.Context, page func() api.Forward) {
	ctx, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	look := time.NewTicker(tabGone / 2)
	defer look.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-look.C:
			if now.Sub(began) >= tabGone && !hasTab(page(), now) {
				return
			}
		}
	}
}

// hasTab reports whether a browser has a tab of a page open, as far as its requests tell.
func hasTab(st api.Forward, now time.Time) bool {
	return st.Conns > 0 || !st.LastUsed.IsZero() && now.Sub(st.LastUsed) < tabGone
}
