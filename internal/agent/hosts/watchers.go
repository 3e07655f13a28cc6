package hosts

import (
	"context"
	"sync"

	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// watcherKey identifies a job watcher. The name of a host is not enough: the config can
// give it another scheduler or another account.
type watcherKey struct {
	host, account string
	scheduler     string
	private       string
	limits        remote.Limits
}

// watchers are the job watchers that were needed so far.
type watchers struct {
	mu    sync.Mutex
	ctx   context.Context // of Start; watchers end with it
	work  *sync.WaitGroup
	byKey map[watcherKey]*jobwatch.Watcher
}

// of are the watchers of a host, also those of earlier configs.
func (l *watchers) of(host string) []*jobwatch.Watcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*jobwatch.Watcher
	for key, w := range l.byKey {
		if key.host == host {
			list = append(list, w)
		}
	}
	return list
}

// Watcher returns the job watcher of a host as it is configured now.
func (h *Hosts) Watcher(host string) *jobwatch.Watcher {
	w, _ := h.WatcherOn(host)
	return w
}

// WatcherOn returns the job watcher of a host as it is configured now, which its
// sessions share, and its account; "" if the host was never connected. A watcher of an
// earlier config serves those who have it, and is idle without them.
func (h *Hosts) WatcherOn(host string) (w *jobwatch.Watcher, account string) {
	options, on := h.WatchOptions(host), h.Pool.Host(host)
	key := watcherKey{host: host, account: on.Account(), scheduler: options.Scheduler, private: options.Private, limits: options.Limits}
	l := &h.watchers
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.byKey[key]
	if !ok {
		w = jobwatch.NewWatcher(Runner{on, key.account}, options)
		l.byKey[key] = w
		ctx := l.ctx
		l.work.Go(func() { _ = w.Serve(ctx) }) // until ctx ends
	}
	return w, key.account
}

// ConnectedWatcher is Watcher for a host that must be connected.
func (h *Hosts) ConnectedWatcher(host string) (*jobwatch.Watcher, error) {
	if err := h.Connected(host); err != nil {
		return nil, err
	}
	return h.Watcher(host), nil
}
